"""Training goes on without ranks that are killed or late: the mean, the replicas, a successor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from innet.cluster.launch import RestartPolicy
from tests.faults.conftest import run_with_faults

pytestmark = [pytest.mark.torch, pytest.mark.faults]
WORKER = Path(__file__).parent / "workers" / "recovers.py"
LOST = "RankFailed: allreduce(sum.f32, shape (8,)) seq=13: rank {dies} (h{dies}) was killed"


@pytest.mark.parametrize("dies", [0, 2])
async def test_survivors_average_over_their_number(dies):
    """Also when it was rank 0, whose process held PyTorch's store."""
    policy = RestartPolicy(on_worker_death="shrink")
    result = await run_with_faults(
        "star:4", [sys.executable, str(WORKER), str(dies)], restarts=policy
    )
    assert result.failure == ""
    survivors = [host for host in range(4) if host != dies]
    for rank, host in enumerate(survivors):
        said = result.said(f"h{host}")
        assert LOST.format(dies=dies) in said
        assert f"goes on as {rank} of 3" in said
        assert "sizes [4, 4, 4, 3, 3, 3, 3, 3]" in said
        assert "means over those who are there True" in said
        assert f"environment {rank} of 3" in said


@pytest.mark.parametrize("dies", [0, 2])
async def test_a_successor_takes_the_place_of_a_dead_rank(dies):
    policy = RestartPolicy(on_worker_death="wait")
    result = await run_with_faults(
        "star:4", [sys.executable, str(WORKER), str(dies)], restarts=policy
    )
    assert result.failure == ""
    for host in range(4):
        said = result.said(f"h{host}")
        if host != dies:
            assert LOST.format(dies=dies) in said
            assert f"goes on as {host} of 4" in said
        assert "sizes [4, 4, 4, 4, 4, 4, 4, 4]" in said
        assert "means over those who are there True" in said
        assert f"environment {host} of 4" in said


def test_late_gradients_are_added_in_the_next_step_and_replicas_stay_equal(run_job):
    result = run_job("stragglers.py")
    assert result.failure == ""
    for rank in range(4):
        assert result.said(f"h{rank}").splitlines() == [
            "moved as the sets say True",
            "all at the ends True",
            "once without it True",
            "nothing left True True",
            "the same everywhere True",
        ]
