"""Fixtures of the emulation's tests: small topologies, a registry, a check for remains."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from innet.topology import Host, Interface, Link, Switch, Topology
from tests.cluster.emulation.witness import Witness

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
