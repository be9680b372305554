"""A node carries out the requests that come to its control socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from innet.errors import ControlError
from innet.node.agent import NodeAgent
from innet.node.node_config import FaceConfig, LinkShape, NodeConfig, UdpChannel
from innet.node.requests import ControlClient


class Node:
    """Stands in for the native node, and keeps its routes."""

    def __init__(self) -> None:
        self.routes: set[tuple[str, int]] = set()
        self.jobs: set[str] = set()
        self.admitted: set[tuple[int, str]] = set()
        self.emptied: list[str] = []

    def drop_cached(self, prefix: str) -> None:
        self.emptied.append(prefix)

    def dismiss_face(self, face: int, prefix: str) -> None:
        self.admitted.discard((face, prefix))

    def add_route(self, name: str, face: int) -> None:
        self.routes.add((name, face))

    def remove_route(self, name: str, face: int) -> None:
        self.routes.remove((name, face))

    def install_job(self, prefix: str, weight: int, signing: object, trusted: list[object]) -> None:
        self.jobs.add(prefix)

    def remove_job(self, prefix: str) -> None:
        self.jobs.remove(prefix)
        self.admitted = {entry for entry in self.admitted if entry[1] != prefix}

    def admit_face(self, face: int, prefix: str) -> None:
        assert prefix in self.jobs
        self.admitted.add((face, prefix))


def face_towards(peer: str) -> FaceConfig:
    return FaceConfig(
        peer=peer,
        peer_kind="host",
        channel=UdpChannel(
            local_address="127.0.0.1",
            local_port=1,
            peer_address="127.0.0.1",
            peer_port=2,
        ),
        mtu_bytes=1472,
        queue_bytes=1 << 16,
        shape=LinkShape(rate_bps=None, delay_s=0, loss=0, queue_bytes=0, mark_bytes=None),
    )


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def agent(node: Any, tmp_path: Path) -> Iterator[ControlClient]:
    """Asks the agent of ``s0``, which has faces 0 and 1."""
    config = NodeConfig(
        run_id="lab",
        node="s0",
        kind="switch",
        mode="local",
        run_dir=tmp_path,
        faces=(face_towards("h0"), face_towards("h1")),
        routes=(),
        slots=8,
        cache_bytes=0,
        cache_policy="lru",
        control_socket=tmp_path / "s0.ctl",
        ndn_socket=tmp_path / "s0.ndn",
        seed=1,
        ip_address=None,
    )
    with NodeAgent(node, config), ControlClient(config.control_socket, who="s0") as client:
        yield client


def test_a_message_sets_the_routes_and_removes_all_others(agent: ControlClient, node: Node) -> None:
    agent.request("set_routes", routes={"h0": 0, "h1": 1})
    assert node.routes == {("/n/h0", 0), ("/n/h1", 1)}
    agent.request("set_routes", routes={"h0": 1})
    assert node.routes == {("/n/h0", 1)}


@pytest.mark.parametrize("face", [2, -1, "0", None])
def test_a_route_to_an_unknown_face_is_refused_and_changes_nothing(
    agent: ControlClient, node: Node, face: object
) -> None:
    agent.request("set_routes", routes={"h0": 0})
    with pytest.raises(ControlError, match="faces 0 to 1, and routes were given to others"):
        agent.request("set_routes", routes={"h0": 1, "h1": face})
    assert node.routes == {("/n/h0", 0)}


def pool(prefix: str, *hosts: str) -> dict[str, Any]:
    key = {"signature": "ed25519", "name": f"{prefix}/KEY", "secret": "00" * 32}
    return {"prefix": prefix, "weight": 1, "hosts": hosts, "key": key}


def test_a_message_empties_the_cache_of_a_prefix(agent: ControlClient, node: Node) -> None:
    agent.request("drop_cached", prefix="/kv/aa")
    assert node.emptied == ["/kv/aa"]


def test_a_message_sets_the_pools_and_removes_all_others(agent: ControlClient, node: Node) -> None:
    agent.request("set_pools", pools=[pool("/kv/aa", "h0", "h1"), pool("/kv/bb", "h7")])
    assert node.jobs == {"/kv/aa", "/kv/bb"}
    assert node.admitted == {(0, "/kv/aa"), (1, "/kv/aa")}
    agent.request("set_pools", pools=[pool("/kv/aa", "h1")])
    assert (node.jobs, node.admitted) == ({"/kv/aa"}, {(1, "/kv/aa")})
    agent.request("set_pools", pools=[])
    assert node.jobs == set()
