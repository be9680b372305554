"""Fixtures of the emulation's tests: small topologies, a registry of their own, what is left."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from innet.emulation.process_identity import ProcessIdentity
from innet.emulation.runs import find_run
from innet.topology import Host, Interface, Link, Switch, Topology

TopologyFactory = Callable[..., Topology]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty registry of runs, under a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory) / "innet"


@pytest.fixture
def line() -> TopologyFactory:
    """Makes ``h0 -- s0 -- s1 -- h1`` with the given properties on each link."""
    return _line


@pytest.fixture
def witness(registry: Path) -> Callable[[str], Witness]:
    """Takes down what a live run consists of, to look for it when the run is over."""
    return lambda run_id: Witness(run_id, registry)


class Witness:
    """What a run consists of: its processes, and those that keep its namespaces alive."""

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
        assert _processes_of(self._run_id) == set()
        assert [process for process in self._holders if process.is_alive()] == []
        mounts = Path("/proc/self/mountinfo").read_text()
        assert [namespace for namespace in self._namespaces if namespace in mounts] == []
        assert not self._registry.exists()


def _line(**link: object) -> Topology:
    nodes: dict[str, Host | Switch] = {
        "h0": Host(name="h0"),
        "s0": Switch(name="s0"),
        "s1": Switch(name="s1"),
        "h1": Host(name="h1"),
    }
    ends = (("h0:eth0", "s0:eth0"), ("s0:eth1", "s1:eth1"), ("s1:eth0", "h1:eth0"))
    links = tuple(
        Link.model_validate({"a": Interface.parse(a), "b": Interface.parse(b), **link})
        for a, b in ends
    )
    return Topology(name="line", nodes=nodes, links=links)


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
        for path in (
            Path(f"/proc/{process.pid}/ns/net"),
            *_listed(Path(f"/proc/{process.pid}/fd")),
        )
        if _target(path) == namespace
    }


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
