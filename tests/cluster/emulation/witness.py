"""Finds the parts of a live run, and what remains of it when it is over."""

from __future__ import annotations

import os
from pathlib import Path

from innet.cluster.emulation.runs import ProcessIdentity, find_run


class Witness:
    """The parts of a live run: its processes, and those that keep its namespaces alive."""

    def __init__(self, run_id: str, registry: Path) -> None:
        self.processes = _processes_of(run_id)
        self._run_id = run_id
        self._registry = registry
        self._namespaces = [os.readlink(path) for path in find_run(run_id).namespaces.values()]
        # By process: the kernel uses the inode number of a dead namespace again.
        self._holders = {
            process: namespace
            for namespace in self._namespaces
            for process in _holders_of(namespace)
        }

    def assert_nothing_is_left(self) -> None:
        """Fail if a process, namespace or file of the run exists."""
        assert self.leftovers() == []

    def leftovers(self) -> list[str]:
        """The processes, namespaces and files of the run that exist."""
        mounts = Path("/proc/self/mountinfo").read_text()
        found = [f"process {process.pid}" for process in _processes_of(self._run_id)]
        found += [f"namespace of process {p.pid}" for p in self._holders if self._still_holds(p)]
        found += [f"mount of {space}" for space in self._namespaces if space in mounts]
        if self._registry.exists():
            found.append(f"files in {self._registry}")
        return found

    def _still_holds(self, process: ProcessIdentity) -> bool:
        if process == ProcessIdentity.current():  # a launcher that goes on after the run
            return not _open_files(process).isdisjoint(self._namespaces)
        return process.is_alive()


def _processes_of(run_id: str) -> set[ProcessIdentity]:
    """The live processes that carry a run's id in their environment."""
    marker = f"INNET_RUN_ID={run_id}".encode()
    return {
        process
        for process in _live_processes()
        if marker in _read(Path(f"/proc/{process.pid}/environ")).split(b"\0")
    }


def _holders_of(namespace: str) -> set[ProcessIdentity]:
    """The processes that are in a namespace, or have it open."""
    return {
        process
        for process in _live_processes()
        if namespace in _open_files(process)
        or _target(Path(f"/proc/{process.pid}/ns/net")) == namespace
    }


def _open_files(process: ProcessIdentity) -> set[str | None]:
    return {_target(path) for path in _listed(Path(f"/proc/{process.pid}/fd"))}


def _live_processes() -> list[ProcessIdentity]:
    pids = (int(directory.name) for directory in Path("/proc").glob("[0-9]*"))
    found = (ProcessIdentity.of(pid) for pid in pids)
    return [process for process in found if process is not None and process.is_alive()]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
