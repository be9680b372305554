"""Local mode: links between the processes of a run on one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.runs import find_run, list_runs
from innet.errors import EmulationError
from innet.node.node_config import (
    FaceConfig,
    Mode,
    NodeConfig,
    SharedMemoryChannel,
    SocketChannel,
)
from innet.topology import Topology

TopologyFactory = Callable[..., Topology]

OPEN_FIRST_FACE = """
import os, pathlib, socket
from innet.node.node_config import NodeConfig
config = NodeConfig.load(pathlib.Path(os.environ["INNET_NODE_CONFIG"]))
face = socket.socket(fileno=config.faces[0].channel.fd)
"""


async def test_neighbours_exchange_packets_over_the_sockets_they_inherit(
    line: TopologyFactory,
) -> None:
    lines: list[tuple[str, str]] = []
    async with Network(
        line(), shared_memory=False, output=lambda *seen: lines.append(seen)
    ) as network:
        switch = network.spawn(
            "s0", [sys.executable, "-c", OPEN_FIRST_FACE + "print(face.recv(100).decode())"]
        )
        host = network.spawn(
            "h0", [sys.executable, "-c", OPEN_FIRST_FACE + "face.send(b'hello from ' + b'h0')"]
        )
        assert (await host.wait(), await switch.wait()) == (0, 0)
    assert lines == [("s0", "hello from h0")]


async def test_the_two_ends_of_each_link_share_its_memory(line: TopologyFactory) -> None:
    async with Network(line()) as network:
        for face, back in _both_ends(network):
            one, other = face.channel, back.channel
            assert isinstance(one, SharedMemoryChannel)
            assert isinstance(other, SharedMemoryChannel)
            assert (one.name, one.memory_fd) == (other.name, other.memory_fd)
            assert {one.end, other.end} == {0, 1}
            assert (one.own_event_fd, one.peer_event_fd) == (
                other.peer_event_fd,
                other.own_event_fd,
            )


async def test_the_two_ends_of_each_link_are_connected(line: TopologyFactory) -> None:
    async with Network(line(), shared_memory=False) as network:
        for number, (face, back) in enumerate(_both_ends(network)):
            assert isinstance(face.channel, SocketChannel)
            assert isinstance(back.channel, SocketChannel)
            os.write(face.channel.fd, b"%d" % number)
            assert os.read(back.channel.fd, 100) == b"%d" % number


def _both_ends(network: Network) -> Iterator[tuple[FaceConfig, FaceConfig]]:
    """Each end of each link, and the other one."""
    for name in network.topology.nodes:
        for face in network.config(name).faces:
            (back,) = (f for f in network.config(face.peer).faces if f.peer == name)
            assert (face.mtu_bytes, face.shape) == (back.mtu_bytes, back.shape)
            yield face, back


async def test_the_port_model_gets_all_properties_of_the_link(line: TopologyFactory) -> None:
    topology = line(
        rate_bps=2e8, delay_s=0.01, loss=0.02, queue_bytes=60000, mark_bytes=9000, mtu_bytes=1500,
        jitter_s=0.001, reorder=0.1, reorder_delay_s=0.002, duplicate=0.3, corrupt=0.4,
    )  # fmt: skip
    async with Network(topology) as network:
        face = network.config("h0").faces[0]
    assert face.shape.model_dump() == {
        "rate_bps": 2e8,
        "delay_s": 0.01,
        "loss": 0.02,
        "queue_bytes": 60000,
        "mark_bytes": 9000,
        "jitter_s": 0.001,
        "reorder": 0.1,
        "reorder_delay_s": 0.002,
        "duplicate": 0.3,
        "corrupt": 0.4,
    }
    assert face.mtu_bytes == 1472


async def test_the_configuration_on_disk_is_the_one_in_memory(line: TopologyFactory) -> None:
    async with Network(line()) as network:
        for name in network.topology.nodes:
            config = NodeConfig.load(network.config_path(name))
            assert config == network.config(name)
            assert {route.node for route in config.routes} == set(network.topology.nodes) - {name}


async def test_seeds_differ_between_nodes_and_repeat_between_runs(line: TopologyFactory) -> None:
    async with Network(line(), seed=7) as one, Network(line(), seed=7) as two:
        seeds = [one.config(name).seed for name in line().nodes]
        assert seeds == [two.config(name).seed for name in line().nodes]
        assert len(set(seeds)) == len(seeds)


async def test_concurrent_runs_are_found_by_id(line: TopologyFactory) -> None:
    async with Network(line(), run_id="first"):
        assert find_run().run_id == "first"
        async with Network(line(), run_id="second"):
            assert [run.run_id for run in list_runs()] == ["first", "second"]
            assert find_run("second").topology == "line"
            with pytest.raises(EmulationError, match="first, second"):
                find_run()
        with pytest.raises(EmulationError, match="no run second"):
            find_run("second")
    with pytest.raises(EmulationError, match="innet up"):
        find_run()


async def test_a_run_id_cannot_be_used_twice(line: TopologyFactory) -> None:
    async with Network(line(), run_id="same") as network:
        with pytest.raises(EmulationError, match="innet down same"):
            async with Network(line(), run_id="same"):
                pass
        assert network.config_path("h0").exists()


@pytest.mark.parametrize("run_id", ["../escape", ".hidden", "a b", "x" * 49])
async def test_a_malformed_run_id_is_refused(line: TopologyFactory, run_id: str) -> None:
    with pytest.raises(EmulationError, match="cannot be a run id"):
        async with Network(line(), run_id=run_id):
            pass
    assert list_runs() == []


def test_an_unknown_mode_is_refused(line: TopologyFactory) -> None:
    with pytest.raises(EmulationError, match="local or netns"):
        Network(line(), mode=cast(Mode, "sim"))


async def test_a_socket_path_that_is_too_long_is_refused(
    line: TopologyFactory, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = registry.parent / ("d" * 90)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    with pytest.raises(EmulationError, match="shorter directory"):
        async with Network(line()):
            pass
    assert list(deep.iterdir()) == []


def test_a_registry_accessible_to_other_users_is_refused(registry: Path) -> None:
    registry.mkdir()
    registry.chmod(0o777)
    with pytest.raises(EmulationError, match="you alone"):
        list_runs()


async def test_an_unknown_node_is_an_error_that_lists_the_nodes(line: TopologyFactory) -> None:
    async with Network(line()) as network:
        with pytest.raises(EmulationError, match=r"no node 'h9'.*h0, s0, s1, h1"):
            network.spawn("h9", ["true"])


async def test_using_a_network_that_is_not_up_raises(line: TopologyFactory) -> None:
    with pytest.raises(EmulationError, match="not up"):
        Network(line()).spawn("h0", ["true"])


async def test_kernel_counters_are_refused_with_an_alternative(
    line: TopologyFactory,
) -> None:
    async with Network(line()) as network:
        with pytest.raises(EmulationError, match="netns mode"):
            await network.link_counters()


def test_a_broken_configuration_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "h0.json"
    with pytest.raises(EmulationError, match=r"h0\.json"):
        NodeConfig.load(path)
    path.write_text('{"node": "h0"}')
    with pytest.raises(EmulationError, match=r"h0\.json"):
        NodeConfig.load(path)
