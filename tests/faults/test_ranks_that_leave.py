"""What a rank has sent is delivered though its program is over; the rest is refused soon."""

from __future__ import annotations

import pytest

from tests.faults.conftest import run_with_faults, worker

SENT = """\
broadcast: 7.0
scatter: 8.0
gather: 9.0
reduce: 10.0
message: 11.0
any message: 12.0
get: 13.0
put: 15.0
fetch: 14.0
another """
"""What rank 1 prints of all that rank 0 sent, and the beginning of the next line."""
REFUSED = 20
"""The calls that need what rank 0 never sent."""
LEFT = "rank 0 (h0) left the group without calling this operation"
ENDED = "rank 0 (h0) left the group, and its process has ended"
QUIT = "rank 0 (h0) exited with code 0 without closing its worker"


def refusals(said: str) -> list[str]:
    """The calls that ended soon with the rank that left; sends to it may end in both ways."""
    refused = [line for line in said.splitlines() if ": RankFailed True: " in line]
    return [line for line in refused if "messages to it" not in line]


@pytest.mark.parametrize(
    ("how", "algorithm"),
    [
        ("returns", "inc"),
        pytest.param("returns", "ring", marks=pytest.mark.faults),
        pytest.param("returns", "ps", marks=pytest.mark.faults),
        ("closes", "halving-doubling"),
        pytest.param("closes", "inc", marks=pytest.mark.faults),
    ],
)
async def test_what_a_rank_sent_before_it_left_is_delivered(tmp_path, how, algorithm):
    result = await run_with_faults(
        "star:2", worker("leaves.py", how, tmp_path), algorithm=algorithm
    )
    said = result.said("h1")
    assert said.startswith(SENT)
    refused = refusals(said)
    assert len(refused) == REFUSED, said
    assert all(line.endswith(LEFT) for line in refused), said
    assert "DeadlineExceeded" not in said
    assert result.failure == ""


@pytest.mark.parametrize(("how", "why"), [("lingers", ENDED), ("quits", QUIT)])
async def test_a_rank_whose_process_has_ended_is_named_soon(tmp_path, how, why):
    result = await run_with_faults(
        "star:2", worker("leaves.py", how, tmp_path), settings=["collectives.linger_s=0"]
    )
    said = result.said("h1")
    refused = refusals(said)
    assert len(refused) == len(said.splitlines()) - 1, said
    assert all(why in line for line in refused), said
