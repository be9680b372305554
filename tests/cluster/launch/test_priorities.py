"""Priorities of threads when the nodes of a network share a processor."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.node.node_config import Mode
from innet.topology import load_topology
from tests.said import Said

_SCHEDULER = """
import os
from pathlib import Path
import innet
with innet.init():
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "innet-node":
            number = int(task.name)
            priority = os.sched_getparam(number).sched_priority
            print(os.sched_getscheduler(number) == os.SCHED_RR, priority)
"""

_BOUND_PROGRAM = """
import os, threading
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
before = set(threading.enumerate())
import innet
from innet.kv.pool_member import PoolMember
from innet.worker import current_worker
with PoolMember.open(memory="1MiB", offered_memory="1MiB"):
    background = current_worker().background("beside")
    background.post(lambda: None)
    others = {t.name: t.native_id for t in set(threading.enumerate()) - before}
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as name:
            if name.read().strip() == "innet-node":
                others["innet-node"] = int(task)
    assert {"innet-node", "beside", "the pool of tenant default"} <= set(others), others
    others["main"] = os.getpid()
    for name in ("innet-node", "beside", "the pool of tenant default", "main"):
        thread = others[name]
        print(len(os.sched_getaffinity(thread)), os.getpriority(os.PRIO_PROCESS, thread))
"""


def may_be_realtime() -> bool:
    """Whether this process may give a thread a real-time priority."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        os.sched_setscheduler(0, *before)
        return True
    return False


def network_threads_of(pid: int) -> Iterator[tuple[bool, int]]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "innet-node":
            number = int(task.name)
            in_turns = os.sched_getscheduler(number) == os.SCHED_RR
            yield in_turns, os.sched_getparam(number).sched_priority


async def priorities(mode: Mode) -> tuple[list[str], list[tuple[bool, int]]]:
    """The priorities of the workers' network threads and of the switch's."""
    said = Said()
    async with Session(load_topology("star:1"), mode=mode, output=said) as session:
        await session.run_workers([sys.executable, "-c", _SCHEDULER])
        switches = [
            thread
            for process in session.network.processes.processes
            if process.spec.node == "s0"
            for thread in network_threads_of(process.identity.pid)
        ]
    return said.by("h0"), switches


@pytest.mark.netns
def test_forwarding_has_priority_over_programs_and_switches_over_hosts() -> None:
    if not may_be_realtime():
        pytest.skip("this user may give no thread a real-time priority")
    hosts, switches = asyncio.run(priorities("netns"))
    assert hosts == ["True 2"]
    assert switches == [(True, 3)]


def test_on_loopback_no_thread_has_a_real_time_priority() -> None:
    hosts, switches = asyncio.run(priorities("local"))
    assert hosts == ["False 0"]
    assert switches == [(False, 0)]


def test_threads_of_a_node_run_on_all_processors_and_before_a_program_that_is_bound() -> None:
    processors = len(os.sched_getaffinity(0))
    if processors == 1:
        pytest.skip("there is one processor, on which everything runs")
    niceness = -10 if may_be_realtime() else 0

    async def run() -> list[str]:
        said = Said()
        async with Session(load_topology("star:1"), output=said) as session:
            await session.run_workers([sys.executable, "-c", _BOUND_PROGRAM])
        return said.by("h0")

    assert asyncio.run(run()) == [f"{processors} {niceness}"] * 3 + ["1 0"]
