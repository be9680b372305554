"""The controller gives a group's keys to its members and switches, and new ones to new members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from innet.cluster.control.actions import MessageOutcome, Send
from innet.cluster.control.controller import Controller
from innet.cluster.control.jobs import Job, KnownJob, LaunchRecord
from innet.errors import ControlError, NoAnswer, SecurityError
from innet.security import KeyDealer, node_certificate_name
from innet.security.credential_packets import CredentialOpener
from innet.security.group_keys import GroupCredentials
from innet.security.trust import PrivateKey
from innet.topology import load_topology
from tests.cluster.control.hand_driven import HandDriven

HOSTS = ("h0", "h1", "h2")


class Nodes:
    """The processes on all nodes: what a controller reaches on their control sockets."""

    def __init__(self) -> None:
        self._authority = PrivateKey.generate("ed25519")
        self.switch = CredentialOpener("s0", self._public)
        self.installed: list[GroupCredentials] = []
        self.reports: dict[str, dict[str, Any]] = {}
        self.keys = KeyDealer(["s0"], "gmac").deal("j1", HOSTS)
        self.record = LaunchRecord(authority=self._authority.to_der().hex())

    @property
    def _public(self) -> str:
        return self._authority.public.spki.hex()

    def start_process(self, host: str) -> CredentialOpener:
        return CredentialOpener(host, self._public)

    def restart_switch(self) -> None:
        self.switch = CredentialOpener("s0", self._public)
        self.installed.clear()

    def answer(self, node: str, method: str, params: Mapping[str, Any]) -> Any:
        if method == "memberships":
            if node not in self.reports:
                raise NoAnswer("nobody is there")
            return self.reports[node]
        if method == "sealing_key":
            return self.switch.public
        if method == "install_group_keys":
            packet = bytes.fromhex(params["packet"])
            self.installed.append(self.switch.open(packet))
        return None


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def controller_of(nodes: Nodes) -> HandDriven:
    return HandDriven(Controller(load_topology("star:3"), record=nodes.record), nodes.answer)


@pytest.fixture
def controller(nodes: Nodes) -> HandDriven:
    made = controller_of(nodes)
    made.open_job(HOSTS, keys=nodes.keys.switches, groups=nodes.keys.groups)
    return made


def attached(controller: HandDriven, nodes: Nodes) -> dict[str, CredentialOpener]:
    """A process on each host, which the controller knows."""
    processes = {host: nodes.start_process(host) for host in HOSTS}
    for host, process in processes.items():
        controller.attach(host, 1, process.public)
    return processes


def keys_in(answer: dict[str, Any], process: CredentialOpener) -> GroupCredentials:
    return process.open(bytes.fromhex(answer["keys"]))


def names_of_trusted(credentials: GroupCredentials) -> set[str]:
    return {key.name for key in credentials.trusted}


def test_members_and_the_switch_get_one_key_with_different_salts(controller, nodes):
    processes = attached(controller, nodes)
    got = [
        keys_in(controller.join_group("g0", "inc", HOSTS, host), process)
        for host, process in processes.items()
    ] + nodes.installed
    assert len(got) == 4
    assert {credentials.key.name for credentials in got} == {"/j1/KEY/g0/v=1"}
    assert len({credentials.key.secret for credentials in got}) == 1
    assert len({credentials.salt for credentials in got}) == 4
    assert names_of_trusted(got[0]) == {node_certificate_name(host, "j1") for host in HOSTS}


def test_a_repeated_request_gets_the_same_packet(controller, nodes):
    attached(controller, nodes)
    first, again = (controller.join_group("g0", "inc", HOSTS, "h0") for _ in range(2))
    assert first["keys"] == again["keys"]


def test_a_shrunken_group_has_a_new_key_that_excluded_ranks_cannot_read(controller, nodes):
    processes = attached(controller, nodes)
    for host in HOSTS:
        answer = controller.join_group("g0", "inc", HOSTS, host)
    before = keys_in(answer, processes["h2"])
    controller.fail_node("h2", "was killed")
    answer = controller.shrink_group("g0", answer["number"], "h0")
    after = keys_in(answer, processes["h0"])
    assert before.key is not None
    assert after.key is not None
    assert after.key.name == "/j1/KEY/g0/v=2"
    assert after.key.secret != before.key.secret
    assert set(after.prefixes).isdisjoint(before.prefixes)
    assert names_of_trusted(after) == {node_certificate_name(host, "j1") for host in ("h0", "h1")}
    for_others = controller.shrink_group("g0", 1, "h1")["keys"]
    with pytest.raises(SecurityError, match="not for h2"):
        processes["h2"].open(bytes.fromhex(for_others))


def test_a_successor_gets_keys_that_its_predecessor_cannot_open(controller, nodes):
    predecessor = attached(controller, nodes)["h1"]
    successor = nodes.start_process("h1")
    controller.attach("h1", 1, successor.public)
    answer = controller.join_group("g0", "inc", HOSTS, "h1")
    with pytest.raises(SecurityError, match="not for this process"):
        keys_in(answer, predecessor)
    keys_in(answer, successor)


def test_a_switch_that_returns_gets_the_keys_of_all_groups_again(controller, nodes):
    attached(controller, nodes)
    for name in ("g0", "other"):
        controller.join_group(name, "inc", HOSTS, "h0")
    before = {credentials.key.name: credentials for credentials in nodes.installed}
    controller.lose_switch("s0", "s0 was killed", returns=True)
    nodes.restart_switch()
    controller.restore_switch("s0")
    after = {credentials.key.name: credentials for credentials in nodes.installed}
    assert set(after) == {"/j1/KEY/g0/v=1", "/j1/KEY/other/v=1"}
    for name, credentials in after.items():
        assert credentials.key == before[name].key
        assert credentials.salt != before[name].salt


def test_a_switch_that_returns_between_two_jobs_opens_the_keys_of_the_next(controller, nodes):
    controller.join_group("g0", "inc", HOSTS, "h0")
    controller.close_job(controller.job)
    controller.lose_switch("s0", "s0 was killed", returns=True)
    nodes.restart_switch()
    controller.restore_switch("s0")
    controller.open_job(HOSTS, keys=nodes.keys.switches, groups=nodes.keys.groups)
    controller.join_group("g0", "inc", HOSTS, "h0")
    assert len(nodes.installed) == 1


def test_the_next_controller_gives_the_same_keys_with_unused_salts(controller, nodes):
    processes = attached(controller, nodes)
    answer = controller.join_group("g0", "inc", HOSTS, "h0")
    before = keys_in(answer, processes["h0"])
    salts = {before.salt, *(credentials.salt for credentials in nodes.installed)}
    nodes.reports["h0"] = {
        "node": "h0",
        "pid": 1,
        "incarnation": 1,
        "failed": None,
        "sealing_key": processes["h0"].public,
        "groups": [
            {
                "name": "g0",
                "number": 1,
                "algorithm": "inc",
                "ranks": HOSTS,
                "plans": answer["plans"],
                "ready": False,
                "left": False,
                "failure": None,
            }
        ],
    }
    nodes.installed.clear()
    job = KnownJob(
        job=Job("j1", "/j1", HOSTS, 1), keys=nodes.keys.switches, groups=nodes.keys.groups
    )
    nodes.record = nodes.record.model_copy(
        update={"generation": 1, "admitted": 1, "jobs": {"j1": job}}
    )
    again = controller_of(nodes)
    for credentials in nodes.installed:
        assert credentials.key == before.key
        assert credentials.salt not in salts
    assert len(nodes.installed) == 1
    answer = again.join_group("g0", "inc", HOSTS, "h0")
    credentials = keys_in(answer, processes["h0"])
    assert credentials.key == before.key
    assert credentials.salt not in salts


def test_groups_have_no_keys_without_an_authority(nodes):
    nodes.record = LaunchRecord()
    controller = controller_of(nodes)
    controller.open_job(HOSTS, groups=nodes.keys.groups)
    assert controller.join_group("g0", "inc", HOSTS, "h0")["keys"] is None
    assert nodes.installed == []


class _HungSwitch:
    """A controller of leaf0 with h0 and h1, leaf1 with h2, and a spine; one switch lies."""

    def __init__(self) -> None:
        self._authority = PrivateKey.generate("ed25519")
        public = self._authority.public.spki.hex()
        self.openers = {
            node: CredentialOpener(node, public) for node in ("leaf0", "leaf1", "spine0")
        }
        self.given: dict[str, list[GroupCredentials]] = {node: [] for node in self.openers}
        self.ignores: set[str] = set()
        """The methods that leaf1 does not answer."""
        self.refuses = False
        """Whether leaf1 refuses keys."""
        record = LaunchRecord(authority=self._authority.to_der().hex())
        topology = load_topology("leaf-spine:2x1x2")
        self.controller = _Hand(Controller(topology, record=record), self._answer, self.ignores)
        keys = KeyDealer(list(topology.switches), "gmac").deal("j1", ("h0", "h1"))
        self.controller.open_job(("h0", "h1"), keys=keys.switches, groups=keys.groups)
        for host in ("h0", "h1"):
            self.controller.attach(host, 1, CredentialOpener(host, public).public)

    def _answer(self, node: str, method: str, params: Mapping[str, Any]) -> Any:
        if method == "sealing_key":
            return self.openers[node].public
        if method == "install_group_keys":
            if self.refuses and node == "leaf1":
                raise ControlError("no")
            self.given[node].append(self.openers[node].open(bytes.fromhex(params["packet"])))
        return None

    def join(self, group: str) -> int:
        """The number of the request with which h0 makes a group."""
        return self.controller.request(
            "join_group", group=group, algorithm="inc", ranks=["h0", "h1"], node="h0"
        )


class _Hand(HandDriven):
    """Leaves the messages to ``leaf1`` unanswered that have one of the methods in ``ignores``."""

    def __init__(self, controller: Controller, answer: Any, ignores: set[str]) -> None:
        self.ignores = ignores
        self.unanswered: list[Send] = []
        super().__init__(controller, answer)

    def _deliver(self, send: Send) -> None:
        if send.node == "leaf1" and any(method in self.ignores for method, _ in send.messages):
            self.unanswered.append(send)
        else:
            super()._deliver(send)

    def time_out(self) -> None:
        """The time of all unanswered messages is over."""
        sends, self.unanswered = self.unanswered, []
        for send in sends:
            outcomes = [MessageOutcome(error=NoAnswer("leaf1 hangs")) for _ in send.messages]
            self.controller.on_sent(send.number, outcomes, self.now_s)
        self._carry_out()


@pytest.mark.parametrize("ignored", ["sealing_key", "install_group_keys"])
def test_a_switch_that_only_forwards_and_hangs_delays_one_group(ignored: str) -> None:
    lab = _HungSwitch()
    lab.ignores.add(ignored)
    first = lab.join("g0")
    assert not lab.controller.has_reply(first)
    lab.controller.time_out()
    assert lab.controller.reply(first)["keys"] is not None
    for name in ("g1", "g2"):
        assert lab.controller.has_reply(lab.join(name))
    assert [len(given) for given in (lab.given["leaf0"], lab.given["spine0"])] == [3, 3]


@pytest.mark.parametrize("ignored", ["sealing_key", "install_group_keys"])
def test_a_switch_that_answers_late_gets_the_keys_of_all_groups(ignored: str) -> None:
    lab = _HungSwitch()
    lab.ignores.add(ignored)
    lab.join("g0")
    lab.controller.time_out()
    lab.join("g1")
    lab.ignores.clear()
    lab.controller.time_out()
    lab.join("g2")
    names = {credentials.key.name for credentials in lab.given["leaf1"] if credentials.key}
    assert names == {f"/j1/KEY/{group}/v=1" for group in ("g0", "g1", "g2")}


def test_a_switch_that_only_forwards_and_refuses_keys_fails_no_group() -> None:
    lab = _HungSwitch()
    lab.refuses = True
    assert lab.controller.reply(lab.join("g0"))["keys"] is not None
