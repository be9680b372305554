"""A job that cannot go on ends everywhere, soon, with an error that names the cause."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from innet.cluster.launch import JobFailed, Session
from innet.errors import RankFailed
from innet.topology import load_topology, parse_yaml
from tests.collectives.cluster import Cluster

WORKERS = Path(__file__).parent / "workers"

SMALL_SWITCH = """
name: small-switch
topology:
  nodes:
    h0: {kind: host}
    h1: {kind: host}
    s0: {kind: switch, slots: 64, cache: 1MiB}
  links:
    - endpoints: ["h0:eth0", "s0:eth0"]
    - endpoints: ["h1:eth0", "s0:eth1"]
"""


def test_the_other_ranks_name_a_killed_worker(run_job):
    result = run_job("dies.py", ["60"], topology="star:3")
    assert "SIGKILL" in result.failure
    assert result.failure.startswith("h2 ")
    for node in ("h0", "h1"):
        # Among the lines, not the first: a traceback comes through another pipe.
        (told,) = (t for t in result.said(node).splitlines() if t.startswith("RankFailed|"))
        _, text, in_time = told.split("|")
        assert "rank 2 (h2) was killed" in text
        assert "allreduce" in text
        assert "SIGKILL" in text
        assert in_time == "True"


def test_the_other_ranks_name_a_rank_that_does_not_become_ready(run_job):
    result = run_job("stops_while_joining.py", topology="star:3")
    # Whoever gives up first; the other may hear of that before its own deadline.
    said = result.said("h0") + result.said("h2")
    assert "rank 1 (h1) joined group 'late' and did not get ready within 2 s" in said


def test_an_operation_that_begins_after_a_failure_names_the_rank_too():
    with Cluster(load_topology("star:2")) as cluster:
        cluster.fail(cluster.communicators[0], "rank 1 (h1) was killed", 1)
        with pytest.raises(RankFailed, match=r"^allreduce\(sum.f32.*rank 1 \(h1\) was killed"):
            cluster.communicators[0].allreduce(np.ones(4, np.float32))


@pytest.mark.parametrize("algorithm", ["inc", "ring"])
def test_waiting_for_a_rank_that_left_fails_at_once(algorithm):
    with Cluster(load_topology("star:3"), algorithm, timeout_s=3600) as cluster:
        first, leaver, last = cluster.communicators
        common = [communicator.iallreduce(np.ones(3)) for communicator in cluster.communicators]
        waiting = first.iallreduce(np.ones(5))
        leaver.close()
        assert all((work.wait() == 3).all() for work in common)
        for work in (waiting, last.iallreduce(np.ones(5)), last.ibarrier()):
            with pytest.raises(RankFailed, match=r"rank 1 \(h1\) left the group without calling"):
                work.wait()


def test_a_rank_that_leaves_after_a_failure_passes_on_its_cause():
    with Cluster(load_topology("star:3"), timeout_s=3600) as cluster:
        first, second, _ = cluster.communicators
        waiting = first.iallreduce(np.ones(3))
        cluster.fail(second, "rank 2 (h2) was killed", 2)
        second.close()
        with pytest.raises(RankFailed, match=r"rank 2 \(h2\) was killed"):
            waiting.wait()


@pytest.mark.slow
@pytest.mark.jobs
def test_the_memory_of_a_switch_does_not_grow_with_the_operations():
    """Through 4,000 operations the resident size of a switch does not grow."""

    async def sizes() -> list[int]:
        topology = parse_yaml(SMALL_SWITCH)
        measured = []
        async with Session(topology, output=lambda _label, _line: None) as session:
            for group, operations in (("g0", 1000), ("g1", 1500), ("g2", 1500)):
                await session.run_workers(
                    [sys.executable, str(WORKERS / "many_operations.py"), str(operations), group],
                    algorithm="inc",
                )
                measured.append((await session.status())["s0"]["resident_bytes"])
        return measured

    first, *later = asyncio.run(sizes())
    # Full from the first run on: 3,000 more operations of 12 KB each, 36 MB, add next to nothing.
    assert max(later) < first + (8 << 20)


def test_failed_jobs_name_the_cause_and_the_network_stays_usable():
    async def scenario() -> list[str]:
        lines: list[str] = []
        topology = load_topology("star:3")
        async with Session(topology, output=lambda *line: lines.append(" ".join(line))) as session:

            async def run(script: str, *arguments: str) -> None:
                await session.run_workers([sys.executable, str(WORKERS / script), *arguments])

            with pytest.raises(JobFailed, match=r"(?s)^h1 .*ValueError: the data set is empty"):
                await run("raises.py")
            with pytest.raises(JobFailed, match="RankFailed"):
                await run("ends_early.py")
            await run("many_operations.py", "3", "g0")
        return lines

    told = "\n".join(asyncio.run(scenario()))
    for node in ("h0", "h2"):
        failed = rf"^{node} .*RankFailed: allreduce.*rank 1 \(h1\)"
        assert re.search(rf"{failed} failed with ValueError: the data set is empty", told, re.M)
        early = "left the group without calling this operation"
        assert re.search(rf"{failed} {early}", told, re.M)
