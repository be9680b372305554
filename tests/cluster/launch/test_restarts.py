"""Workers that die, and return or not: the policy, what other ranks see, and how the job ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import JobFailed, RestartPolicy, Session
from innet.cluster.launch.supervision import pause_before_restart_s
from innet.collectives.group_member import checked_policy
from innet.errors import CollectiveError
from innet.topology import load_topology
from tests.conftest import JobResult

WORKERS = Path(__file__).parent / "workers"
SERVE = RestartPolicy(serve=True)


def run(
    topology: str, argv: Sequence[str], restarts: RestartPolicy | None = None, jobs: int = 1
) -> JobResult:
    """Run the same command as one job after the other on one network."""
    result = JobResult()

    async def session() -> None:
        async with Session(
            load_topology(topology), output=lambda label, line: result.lines.append((label, line))
        ) as opened:
            for _ in range(jobs):
                await opened.run_workers(argv, algorithm="inc", restarts=restarts)

    try:
        asyncio.run(session())
    except JobFailed as failure:
        result.failure = str(failure)
    return result


def script(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(WORKERS / name), *arguments]


def test_survivors_continue_and_a_successor_rejoins():
    result = run("star:4", script("rejoins.py"), RestartPolicy(max_restarts=1))
    assert result.failure == ""
    for node in ("h0", "h1", "h3"):
        assert result.said(node).splitlines() == ["lost h2 True", "few 3", "again 4 True"]
    assert result.said("h2") == "again 4 True"


def test_an_elastic_job_ends_well_without_a_worker():
    result = run("star:3", script("comes_once.py"), RestartPolicy(max_restarts=1, elastic=True))
    assert result.failure == ""
    assert result.said("h0") == result.said("h2") == "two 2"


def test_a_job_that_is_not_elastic_fails_after_its_last_restart():
    result = run("star:3", script("comes_once.py"), RestartPolicy(max_restarts=1))
    assert result.failure.startswith("h1 ")
    assert "code 7" in result.failure


def test_a_killed_server_restarts_while_the_other_keeps_serving(tmp_path: Path):
    pipes = [tmp_path / "was-put", tmp_path / "was-got"]
    for pipe in pipes:
        os.mkfifo(pipe)
    result = run("star:2", script("kv_server.py", *map(str, pipes)), SERVE)
    assert result.failure == ""
    assert result.said("h0") == "still serves: True"
    assert result.said("h1").splitlines() == ["start 0: True", "start 1: True"]
    assert "SIGKILL" in result.said("innet")
    assert "starting it anew" in result.said("innet")


def test_a_server_that_never_starts_is_abandoned_and_the_other_serves():
    program = "import os, sys; print('start'); sys.exit(3 * (os.environ['RANK'] == '1'))"
    result = run("star:2", [sys.executable, "-c", program], SERVE)
    assert result.failure == ""
    assert result.said("h0") == "start"
    assert result.said("h1").splitlines() == ["start"] * 6
    assert "is not started again" in result.said("innet")


def test_max_restarts_bounds_the_restarts_of_servers():
    argv = [sys.executable, "-c", "print('start'); raise SystemExit(3)"]
    result = run("star:2", argv, RestartPolicy(max_restarts=1, serve=True))
    assert result.said("h0").splitlines() == result.said("h1").splitlines() == ["start"] * 2
    assert "exited with code 3" in result.failure


def test_a_process_can_reopen_its_worker_and_leave_groups_in_any_order():
    result = run("star:2", script("opens_again.py"), jobs=2)
    assert result.failure == ""
    for node in ("h0", "h1"):
        assert result.said(node).splitlines() == ["all right"] * 2, "or a wait ran out"


def test_a_runs_record_does_not_grow_with_its_jobs():
    async def recorded() -> list[int]:
        counts = []
        async with Session(load_topology("star:2"), output=lambda _label, _line: None) as session:
            for _ in range(3):
                await session.run_workers([sys.executable, "-c", "pass"])
                counts.append(len(find_run(session.network.run_id).processes))
        return counts

    first, *later = asyncio.run(recorded())
    assert later == [first, first]


@pytest.mark.torch
@pytest.mark.faults  # on a loaded machine torchrun's own rendezvous does not always come about
def test_torchrun_restarts_from_a_checkpoint_to_the_same_bits(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--max-restarts", "1"]
    restarted = run(
        "star:2",
        [*torchrun, str(WORKERS / "checkpointed.py"), str(tmp_path / "restarted"), "fails"],
    )
    assert restarted.failure == ""
    assert any("a bad day" in line for _, line in restarted.lines)
    straight = run("star:2", script("checkpointed.py", str(tmp_path / "straight")))
    assert straight.failure == ""
    ends = {line.split(": ", 1)[0]: line for _, line in restarted.lines if line.startswith("from ")}
    assert list(ends) == ["from 4"]
    assert {line.split(": ")[1] for line in ends.values()} == {
        line.split(": ")[1] for _, line in straight.lines if line.startswith("from 0")
    }


def test_pauses_double_up_to_a_few_seconds():
    pauses = [pause_before_restart_s(0.2, number) for number in range(1, 5000)]
    assert pauses[:3] == [0.2, 0.4, 0.8]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 5.0


def test_a_longer_first_pause_is_kept():
    assert pause_before_restart_s(60.0, 7) == 60.0


def test_an_unknown_policy_is_refused_with_the_known_ones():
    assert checked_policy("shrink") == "shrink"
    with pytest.raises(CollectiveError, match=r"no policy 'ignore'.*abort, shrink, wait"):
        checked_policy("ignore")


def test_the_policy_determines_whether_the_launcher_restarts_workers():
    assert RestartPolicy().restarts == 0
    assert not RestartPolicy().goes_on_without
    assert RestartPolicy(on_worker_death="wait").restarts > 0
    assert RestartPolicy(0, on_worker_death="wait").restarts == 0
    assert not RestartPolicy(on_worker_death="wait").goes_on_without
    assert RestartPolicy(on_worker_death="shrink").goes_on_without
