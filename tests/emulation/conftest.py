"""Fixtures of the emulation's tests: small topologies, a registry of their own, what is left."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from innet.emulation.network import Network
from innet.emulation.process_identity import ProcessIdentity
from innet.errors import EmulationError
from innet.topology import Host, Interface, Link, Switch, Topology

TopologyFactory = Callable[..., Topology]


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty registry of runs, under a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory) / "innet"


@pytest.fixture(scope="session")
def netns_obstacle() -> str | None:
    """Why network namespaces cannot be used here, or ``None``."""
    with tempfile.TemporaryDirectory(prefix="innet-test-") as directory:
        previous = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = directory
        try:
            asyncio.run(_launch_smallest())
        except EmulationError as error:
            return str(error)
        finally:
            if previous is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = previous
    return None


@pytest.fixture(autouse=True)
def _skip_without_netns(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("netns") is not None:
        obstacle = request.getfixturevalue("netns_obstacle")
        if obstacle is not None:
            pytest.skip(obstacle)


@pytest.fixture
def line() -> TopologyFactory:
    """Makes ``h0 -- s0 -- s1 -- h1`` with the given properties on each link."""
    return _line


@pytest.fixture
def descendants() -> Callable[[str], list[ProcessIdentity]]:
    """Lists the live processes that carry a run's id in their environment."""
    return _descendants


@pytest.fixture
def namespace_users() -> Callable[[str], list[str]]:
    """Lists what keeps the namespace with a given ``net:[inode]`` alive."""
    return _namespace_users


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


async def _launch_smallest() -> None:
    async with Network(_line(), mode="netns"):
        pass


def _descendants(run_id: str) -> list[ProcessIdentity]:
    marker = f"INNET_RUN_ID={run_id}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes()
        except OSError:
            continue
        identity = ProcessIdentity.of(int(directory.name))
        if marker in environment.split(b"\0") and identity is not None and identity.is_alive():
            found.append(identity)
    return found


def _namespace_users(namespace: str) -> list[str]:
    users = []
    for process in Path("/proc").glob("[0-9]*"):
        for path in (process / "ns/net", *_listed(process / "fd")):
            try:
                if os.readlink(path) == namespace:
                    users.append(str(path))
            except OSError:
                continue
    mounts = Path("/proc/self/mountinfo").read_text()
    return [*users, *(mount for mount in mounts.splitlines() if namespace in mount)]


def _listed(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
