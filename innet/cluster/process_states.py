"""The kernel's accounting of the processes of a run's nodes on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from innet.cluster.emulation.runs import ProcessIdentity, RunRecord
from innet.machine import read_kernel_file

_STOPPED = ("T", "t")
"""States in the kernel's account of a process that a signal or a debugger holds."""


@dataclass(frozen=True)
class ProcessState:
    """A process that runs.

    Attributes:
        stopped: by a signal or a debugger.
        ran_s: processor time that its threads have had.
        waited_s: time that its threads were ready and had no processor.
    """

    stopped: bool = False
    ran_s: float = 0.0
    waited_s: float = 0.0


def process_states(record: RunRecord) -> dict[str, ProcessState]:
    """The state of each node's process that runs."""
    found = {node: ProcessState() for node in _elsewhere(record)}
    for node, pid, state in _live_processes(record):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found[node] = ProcessState(state in _STOPPED, *_run_times(pid))
    return found


def stopped_by_signal(record: RunRecord) -> dict[str, bool]:
    """Whether a signal or a debugger holds the live process of each node."""
    held = {node: state in _STOPPED for node, _, state in _live_processes(record)}
    return dict.fromkeys(_elsewhere(record), False) | held


def is_held(process: ProcessIdentity) -> bool:
    """Whether a signal or a debugger holds a process of this machine."""
    return process.state() in _STOPPED


def held_processes(record: RunRecord) -> dict[str, int]:
    """The pids of nodes whose process a signal or a debugger holds."""
    return {node: pid for node, pid, state in _live_processes(record) if state in _STOPPED}


def _elsewhere(record: RunRecord) -> list[str]:
    """The nodes whose process runs on another machine, of which nothing more is known here."""
    return [p.node for p in record.processes if p.node is not None and p.machine is not None]


def _live_processes(record: RunRecord) -> Iterator[tuple[str, int, str]]:
    """The node, the pid and the state of each process that runs."""
    for process in record.processes:
        if process.node is None or process.machine is not None:
            continue
        if (state := process.identity.state()) is not None:
            yield process.node, process.identity.pid, state


def _run_times(pid: int) -> tuple[float, float]:
    """Seconds that the threads of a process have run, and have waited for a processor."""
    ran_ns = waited_ns = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # it has ended, or the kernel keeps no such account
            ran, waited, _ = read_kernel_file(f"/proc/{pid}/task/{thread}/schedstat").split()
            ran_ns += int(ran)
            waited_ns += int(waited)
    return ran_ns / 1e9, waited_ns / 1e9
