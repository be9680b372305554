"""Takes the two looks at a run of this machine."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil

from innet.cluster.emulation.runs import RunRecord
from innet.cluster.launch.run_status import read_run_status
from innet.errors import TelemetryError
from innet.observe.doctor.observation import Look, Observation, ProcessState
from innet.topology import load_topology


def observe(record: RunRecord, interval_s: float = 1.0) -> Observation:
    """Look at a run twice. Blocks for ``interval_s`` and the time of the answers.

    Raises:
        TelemetryError: the run does not say over which topology it is.
    """
    if not record.topology_path.exists():
        raise TelemetryError(
            f"{record.run_id} has no {record.topology_path.name} in {record.run_dir}: it is "
            "starting or ending, or was launched by another version of innet. Ask again, or launch "
            "it again."
        )
    topology = load_topology(str(record.topology_path))
    before = _look(record)
    time.sleep(interval_s)
    return Observation(topology=topology, before=before, after=_look(record))


def _look(record: RunRecord) -> Look:
    asked_at_s = time.time()
    status = read_run_status(record)
    answered_at_s = time.time()
    processes = {}
    for process in record.processes:
        if process.node is not None and process.identity.is_alive():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                processes[process.node] = _state_of(process.identity.pid)
    return Look(status, processes, asked_at_s, answered_at_s)


def _state_of(pid: int) -> ProcessState:
    stopped = psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    ran_ns = waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or the kernel keeps no such account
            ran, waited, _ = (thread / "schedstat").read_text().split()
            ran_ns += int(ran)
            waited_ns += int(waited)
    return ProcessState(stopped=stopped, ran_s=ran_ns / 1e9, waited_s=waited_ns / 1e9)
