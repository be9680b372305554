"""A replay with real processes finds the blocks that a simulated one finds, and ends when told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from innet.lab.experiment.emulated_replay import replay_on_network
from innet.lab.experiment.run import RunResult, Task, run_task
from innet.lab.experiment.sweep import make_tasks
from innet.lab.harness import SessionRanks
from innet.lab.workload import load_workload
from innet.node.node_config import NODE_VARIABLE
from innet.topology import load_topology

PROMPTS = [(0, [1, 2, 3]), (400, [1, 2, 4]), (800, [1, 2, 3, 5])]


def task_of(tmp_path: Path, last_ms: int) -> Task:
    lines = [
        {
            "timestamp": at_ms,
            "input_length": 512 * len(ids),
            "output_length": 1,
            "hash_ids": ids,
        }
        for at_ms, ids in [*PROMPTS, (last_ms, [1])]
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    topology = load_topology("star:2").with_overrides(rate_bps=1e9, mtu_bytes=9000)
    (task,) = make_tasks(topology, load_workload(f"kv:{path},block=16KiB"), algorithms=["network"])
    return task


def silent(_label: str, _line: str) -> None:
    """Takes what processes print."""


def found(result: RunResult) -> tuple[int, int]:
    (job,) = result.jobs
    assert job.failure is None
    assert job.correct
    assert job.blocks is not None
    blocks = job.blocks
    return blocks.local + blocks.switches + blocks.homes, blocks.computed


async def test_real_processes_find_the_blocks_that_simulated_ones_find(tmp_path: Path) -> None:
    task = task_of(tmp_path, 1200)
    result = await replay_on_network(task, "local", silent, lambda _share, _text: None)
    assert found(result) == found(await asyncio.to_thread(run_task, task)) == (6, 5)
    assert result.operations == 4
    assert sum(link.bytes_per_operation for link in result.links) > 16 << 10


@pytest.mark.faults
async def test_an_interrupted_replay_reports_its_results_so_far(tmp_path: Path) -> None:
    served = asyncio.Event()

    def told(share: float, _text: str) -> None:
        if share == 3 / 4:
            served.set()

    replaying = asyncio.ensure_future(
        replay_on_network(task_of(tmp_path, 3_600_000), "local", silent, told)
    )
    await served.wait()
    replaying.cancel()
    result = await replaying
    assert result.interrupted
    assert len(result.jobs[0].spans_s) == 3


async def test_an_interrupt_while_workers_start_does_not_wait_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("innet.lab.experiment.emulated_replay.EXIT_S", 1e6)
    started = asyncio.Event()
    start = SessionRanks.start

    async def start_and_tell(ranks: SessionRanks, *arguments: Any) -> None:
        await start(ranks, *arguments)
        started.set()

    monkeypatch.setattr(SessionRanks, "start", start_and_tell)
    task = task_of(tmp_path, 1200)
    replaying = asyncio.ensure_future(replay_on_network(task, "local", silent, lambda *_: None))
    await started.wait()
    replaying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await replaying


@pytest.mark.faults
async def test_a_killed_worker_loses_only_its_own_requests(tmp_path: Path) -> None:
    killed: list[psutil.Process] = []

    def told(share: float, _text: str) -> None:
        if share == 2 / 4 and not killed:
            killed.append(worker_on("h1"))
            killed[0].kill()

    result = await replay_on_network(task_of(tmp_path, 1200), "local", silent, told)
    (job,) = result.jobs
    assert job.failure is not None
    assert "1 requests were not served" in job.failure
    assert job.correct
    assert len(job.spans_s) == 3


def worker_on(host: str) -> psutil.Process:
    """The process of a host's worker, a child of this one."""
    (worker,) = (
        process
        for process in psutil.Process().children()
        if "innet.lab.replay.worker" in process.cmdline()
        and process.environ()[NODE_VARIABLE] == host
    )
    return worker
