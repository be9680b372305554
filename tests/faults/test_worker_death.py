"""A worker ends in whatever way: the others go on rightly, or are told the cause in time."""

from __future__ import annotations

import re

import pytest

from innet.cluster.launch import RestartPolicy
from innet.node.node_config import Mode
from tests.conftest import JobResult
from tests.faults.conftest import run_with_faults, worker

pytestmark = pytest.mark.faults

DEADLINE_S = 60
SILENCE_S = 5
"""After which a worker that says nothing counts as dead: longer than a busy machine pauses."""
SURVIVORS = ("h0", "h1", "h3")
ENDINGS = {
    "kill": "rank 2 (h2) was killed by signal 9 (SIGKILL)",
    "stop": f"rank 2 (h2) has not answered for {SILENCE_S} s",
    "exit0": "rank 2 (h2) left the group",
    "exit1": "rank 2 (h2) ended by sys.exit(1)",
    "raise": "rank 2 (h2) failed with ValueError: a bad day",
    "quit0": "rank 2 (h2) exited with code 0 without closing its worker",
    "quit3": "rank 2 (h2) exited with code 3",
    "thread": "rank 2 (h2) exited with code 0 without closing its worker",
    "fork": "rank 2 (h2) exited with code 0 without closing its worker",
    "exec": "rank 2 (h2) runs another program now, without closing its worker",
    "segv": "rank 2 (h2) was killed by signal 11 (SIGSEGV)",
    "term": "rank 2 (h2) was killed by signal 15 (SIGTERM)",
}
WITH_STATUS_0 = ("exit0", "quit0", "thread", "fork")
"""Endings after which the launcher starts no successor."""


async def end_in_midst(
    ending: str,
    policy: RestartPolicy,
    deadline_s: float = DEADLINE_S,
    mode: Mode = "local",
) -> JobResult:
    return await run_with_faults(
        "star:4",
        worker("recovers.py", ending, deadline_s),
        settings=[
            f"recovery.worker_timeout_s={SILENCE_S}",
            "recovery.heartbeat_interval_s=0.2",
        ],
        restarts=policy,
        mode=mode,
    )


def assert_told(result: JobResult, ending: str) -> None:
    # In the midst of the sixth sum, or of the fifth on a rank that was not done with it; who leaves
    # in peace stays until all are.
    seq = "5" if ending == "exit0" else "[45]"
    lost = rf"lost: allreduce\(sum\.i64, shape \(3000,\)\) seq={seq}: {re.escape(ENDINGS[ending])}"
    for node in SURVIVORS:
        assert re.search(lost, result.said(node))


def assert_right_to_the_end(result: JobResult, node: str, size: int) -> None:
    said = result.said(node)
    assert "WRONG" not in said
    assert f"step 12 of {size} right\nends" in said


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_policy_abort_names_the_cause_to_all_ranks(ending):
    result = await end_in_midst(ending, RestartPolicy())
    assert_told(result, ending)
    for node in SURVIVORS:
        assert "the policy is to abort" in result.said(node)
    # Who leaves in peace has not failed; who needs it has.
    assert result.failure.startswith(SURVIVORS if ending == "exit0" else "h2 ")
    if ending != "exit0":
        assert ENDINGS[ending] in result.failure.splitlines()[-1]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_policy_shrink_continues_with_the_survivors(ending):
    result = await end_in_midst(ending, RestartPolicy(on_worker_death="shrink"))
    assert_told(result, ending)
    assert result.failure == ""
    for rank, node in enumerate(SURVIVORS):
        assert f"goes on as rank {rank} of 3" in result.said(node)
        assert_right_to_the_end(result, node, 3)


@pytest.mark.parametrize(
    "ending", [ending for ending in ENDINGS if ending not in (*WITH_STATUS_0, "exec")]
)
async def test_the_policy_wait_continues_with_a_successor(ending):
    result = await end_in_midst(ending, RestartPolicy(on_worker_death="wait"))
    assert_told(result, ending)
    assert result.failure == ""
    for node in ("h0", "h1", "h2", "h3"):
        assert_right_to_the_end(result, node, 4)


@pytest.mark.netns
@pytest.mark.parametrize("policy", ["shrink", "wait"])
async def test_a_job_in_namespaces_follows_its_policy_after_a_kill(policy):
    result = await end_in_midst("kill", RestartPolicy(on_worker_death=policy), mode="netns")
    assert_told(result, "kill")
    assert result.failure == ""
    for node in SURVIVORS:
        assert_right_to_the_end(result, node, 3 if policy == "shrink" else 4)


async def test_the_policy_wait_ends_with_the_cause_without_a_successor():
    ended = await end_in_midst("exit0", RestartPolicy(on_worker_death="wait"))
    used_up = await end_in_midst("kill", RestartPolicy(max_restarts=0, on_worker_death="wait"))
    for node in SURVIVORS:
        assert "rank 2 (h2) ended without joining group 'g0'" in ended.said(node)
        assert "rank 2 (h2) was killed by signal 9 (SIGKILL)" in used_up.said(node)
    assert used_up.failure.startswith("h2 ")


async def test_a_hung_rank_is_named_at_the_deadline_and_can_be_excluded():
    """Its network and its control thread live: only who waits for it can tell."""
    result = await end_in_midst("hang", RestartPolicy(on_worker_death="shrink"), deadline_s=2)
    assert result.failure == ""
    for rank, node in enumerate(SURVIVORS):
        said = result.said(node)
        assert "rank 2 (h2) had not sent its data" in said or "was given up" in said
        assert f"goes on as rank {rank} of 3" in said
        assert_right_to_the_end(result, node, 3)
    assert any("was given up by rank" in line for _, line in result.lines)
