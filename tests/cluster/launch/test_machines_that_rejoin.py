"""Machines that come back at the same time or while another is lost, or are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from innet.cluster.emulation.machine_fabric import MachineFabric
from innet.cluster.emulation.recorded_parts import RecordedMachine
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.launch.cluster_network import ClusterNetwork, ClusterOptions
from innet.cluster.machines.commands import (
    ConfigureRequest,
    ConnectReply,
    ConnectRequest,
    OpenReply,
    OpenRequest,
)
from innet.cluster.machines.listener import JoinedMachine, MachineListener
from innet.cluster.machines.remote import RemoteMachine
from innet.errors import EmulationError
from innet.settings import Settings
from innet.topology import load_topology

TWO_MACHINES = """
name: two
topology:
  nodes:
    h1: {kind: host}
    h2: {kind: host}
    s1: {kind: switch, machine: h1}
    s2: {kind: switch, machine: h2}
  links:
    - endpoints: ["h1:eth0", "s1:eth0"]
    - endpoints: ["s1:eth1", "s2:eth1"]
    - endpoints: ["h2:eth0", "s2:eth0"]
"""
LINK = 1
"""The number of the link between the machines."""


class Agent:
    """A machine without processes.

    Attributes:
        may_open: ``open`` waits for it.
        port: of its link.
        peers: at the other end of its link, one after the other.
    """

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.address = "127.0.0.1"
        self.port = port
        self.lost_because = ""
        self.may_open = asyncio.Event()
        self.peers: list[int] = []
        self.is_open = self.is_lost_in_connect = False
        self.on_lost: Callable[[], None] = lambda: None

    async def open(self, _: OpenRequest) -> OpenReply:
        await self.may_open.wait()
        self.is_open = True
        return OpenReply(
            address="127.0.0.1",
            sockets={LINK: ("127.0.0.1", self.port)},
            run_dir=Path("/run"),
            processors=1,
        )

    async def connect(self, request: ConnectRequest) -> ConnectReply:
        if self.is_lost_in_connect:
            self.lose(f"machine {self.name} does not answer")
            self.on_lost()
        if self.lost_because or not self.is_open:
            raise EmulationError(f"machine {self.name}: the links are not open")
        self.peers.append(request.peers[LINK][1])
        return ConnectReply(received_bytes={LINK: 1472} if request.probes else {})

    async def configure(self, _: ConfigureRequest) -> None:
        pass

    def lose(self, why: str) -> None:
        self.lost_because = why


class Joined:
    """A session of a machine, whose sockets are relayed at once."""

    async def serve(self, _: Any) -> None:
        pass


class NoLinks:
    """The links of the launcher's machine: none."""

    def connect(self, peers: dict[int, Any]) -> None:
        assert not peers


class Launcher(ClusterNetwork):
    """A launcher whose network was up when its machines were lost."""

    def __init__(self, tmp_path: Path, *agents: Agent) -> None:
        path = tmp_path / "two.yaml"
        path.write_text(TWO_MACHINES)
        self.said: list[str] = []
        super().__init__(
            load_topology(str(path)),
            ClusterOptions("127.0.0.1"),
            Settings(),
            "net",
            lambda _label, line: self.said.append(line),
        )
        self._links.fabric = cast(MachineFabric, NoLinks())
        token = SimpleNamespace(addresses=["127.0.0.1:1"])
        self._listener = cast(MachineListener, SimpleNamespace(token_file=lambda: token))
        lost = {
            agent.name: RecordedMachine(nodes=(), state="lost", since_s=0.0) for agent in agents
        }
        record = SimpleNamespace(run_dir=tmp_path, machines=lost, save=lambda: None)
        self._record = cast(RunRecord, record)
        for number, agent in enumerate(agents):
            self._machines[agent.name] = cast(RemoteMachine, agent)
            self._links.take(agent.name, "127.0.0.1", {LINK: ("127.0.0.1", number)})

    async def rejoin(self, agent: Agent) -> None:
        """The agent of a machine has joined anew."""
        machine = cast(RemoteMachine, agent)
        await self._join(machine, cast(JoinedMachine, Joined()))


async def test_machines_that_return_at_the_same_time_reconnect(tmp_path: Path) -> None:
    one, two = Agent("h1", 11), Agent("h2", 22)
    launcher = Launcher(tmp_path, one, two)
    rejoining = [asyncio.ensure_future(launcher.rejoin(agent)) for agent in (one, two)]
    two.may_open.set()
    await asyncio.sleep(0)
    one.may_open.set()
    await asyncio.gather(*rejoining)
    assert (one.peers[-1], two.peers[-1]) == (22, 11)
    assert launcher.is_reachable("h1")
    assert launcher.is_reachable("h2")
    assert [line.split(";")[0] for line in launcher.said] == [
        "machine h1 is back",
        "machine h2 is back",
    ]


async def test_a_machine_returns_while_its_neighbour_is_lost(tmp_path: Path) -> None:
    one, two = Agent("h1", 11), Agent("h2", 22)
    launcher = Launcher(tmp_path, one, two)
    for agent in (one, two):
        agent.may_open.set()
        await launcher.rejoin(agent)
    two.is_lost_in_connect = True
    await launcher.rejoin(one)
    assert launcher.said[-1].startswith("machine h1 is back")


async def test_a_machine_that_is_lost_again_during_its_return_is_skipped(tmp_path: Path) -> None:
    one = Agent("h1", 11)
    launcher = Launcher(tmp_path, one)
    one.lost_because = "machine h1 does not answer"
    await launcher.rejoin(one)
    assert not one.is_open
    assert not launcher.is_reachable("h1")


async def test_a_launch_waits_for_a_machine_lost_during_link_set_up(
    tmp_path: Path,
) -> None:
    one, two, again = Agent("h1", 11), Agent("h2", 22), Agent("h1", 33)
    launcher = Launcher(tmp_path, one, two)
    launcher._links.fabric = None
    lost = asyncio.Event()

    def lose() -> None:
        launcher._on_lost(cast(JoinedMachine, SimpleNamespace(name="h1")), one.lost_because)
        lost.set()

    one.is_lost_in_connect, one.on_lost = True, lose
    for agent in (one, two, again):
        agent.may_open.set()
    for agent in (one, two):
        await launcher.rejoin(agent)
    setting_up = asyncio.ensure_future(launcher._set_up_links())
    await lost.wait()
    assert launcher.said[-1].startswith("1 of 2 machines joined; missing: h1")
    launcher._machines["h1"] = cast(RemoteMachine, again)
    await launcher.rejoin(again)
    await (await setting_up).close()
    assert (again.peers, two.peers) == ([22], [11, 33])


def test_a_machine_that_is_refused_repeatedly_is_logged_once(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    for reason in ("another version", "another version", "version \33[2J"):
        launcher._on_refused("10.0.0.2", reason)
    assert launcher.said == [
        "refused a machine at 10.0.0.2: another version",
        r"refused a machine at 10.0.0.2: version \u001b[2J",
    ]


async def test_a_launch_ends_when_machines_do_not_come(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    launcher._options = ClusterOptions("127.0.0.1", wait_s=0.01)
    with pytest.raises(EmulationError, match=r"not joined within 0\.01 s: h1, h2"):
        await launcher._until_all_joined()
    launcher._failure = asyncio.get_running_loop().create_future()
    launcher._failure.set_result("no node has room")
    with pytest.raises(EmulationError, match="no node has room"):
        await launcher._until_all_joined()
