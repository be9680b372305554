"""What a rank has sent is delivered though its program is over; the rest is refused soon."""

from __future__ import annotations

import pytest

from tests.faults.conftest import run_with_faults, worker

LEFT = "rank 0 (h0) left the group without calling this operation"
ENDED = "rank 0 (h0) left the group, and its process has ended"
QUIT = "rank 0 (h0) exited with code 0 without closing its worker"


@pytest.mark.parametrize("algorithm", ["inc", "ring", "ps", "halving-doubling"])
async def test_what_a_rank_sent_before_its_program_ended_is_delivered(tmp_path, algorithm):
    argv = worker("leaves.py", "returns", tmp_path / "sent")
    result = await run_with_faults("star:2", argv, algorithm=algorithm)
    assert result.said("h1").splitlines() == [
        "broadcast: 7.0",
        "message: 8.0",
        f"another message: RankFailed True: recv(f64, shape (3,), from=0, tag=0): {LEFT}",
        f"another sum: RankFailed True: allreduce(sum.f64, shape (3,)) seq=1: {LEFT}",
    ]
    assert result.failure == ""


@pytest.mark.parametrize(("how", "why"), [("lingers", ENDED), ("quits", QUIT)])
async def test_a_rank_whose_process_has_ended_is_named_soon(tmp_path, how, why):
    result = await run_with_faults(
        "star:2", worker("leaves.py", how, tmp_path / "sent"), settings=["collectives.linger_s=0"]
    )
    lines = [line for line in result.said("h1").splitlines() if "RankFailed" in line]
    assert len(lines) == 4
    for line in lines:
        assert "RankFailed True" in line
        assert why in line
