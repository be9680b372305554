"""Switches and links that fall silent: gone round, waited for, given up, and taken back."""

from __future__ import annotations

import pytest

from innet.cluster.control.actions import Outbox
from innet.cluster.control.liveness import Outages
from innet.cluster.control.placements import LiveTopology
from innet.settings import RecoverySettings
from innet.topology import load_topology

TOPOLOGY = load_topology("leaf-spine:2x2x2")
NODES = TOPOLOGY.nodes
UPLINK = ("leaf0", "spine0")


class Network:
    """A network as its outages change it, and a time."""

    def __init__(self) -> None:
        self.live = LiveTopology(TOPOLOGY)
        self.now_s = 0.0
        settings = RecoverySettings(link_timeout_s=3, partition_timeout_s=10)
        self.outages = Outages(settings, Outbox())

    def end_round(
        self, present: tuple[str, ...] = tuple(NODES), slow: tuple[str, ...] = ()
    ) -> None:
        """All others of ``present`` have answered."""
        self.live = self.outages.on_round(present, slow, self.live, self.now_s)

    def hear(self, **unheard: list[str]) -> None:
        """A round in which all nodes answer, some with neighbours that they do not hear."""
        self.hear_all_but(None, **unheard)

    def hear_all_but(self, stopped: str | None, **unheard: list[str]) -> None:
        """A round in which ``stopped`` does not answer."""
        for node in NODES:
            if node != stopped:
                self.outages.on_answer(node, unheard.get(node, []))
        self.end_round(slow=() if stopped is None else (stopped,))

    def lose(self, switch: str) -> None:
        """``switch`` does not answer in time."""
        self.live = self.outages.on_switch_silent(switch, self.live, self.now_s)

    def hear_again(self, switch: str) -> None:
        """``switch`` answers."""
        self.live = self.outages.on_switch_answer(switch, (), self.live)


@pytest.fixture
def network() -> Network:
    return Network()


def test_a_silent_link_is_avoided_until_both_ends_receive_again(network):
    network.hear(leaf0=["spine0"], spine0=["leaf0"])
    assert network.live.cut == (UPLINK,)
    assert network.live.next_hops["leaf0"]["spine0"] == (network.live.next_hops["leaf0"]["spine1"])
    network.hear(leaf0=["spine0"])
    assert network.live.cut == (UPLINK,)
    network.hear()
    assert network.live.cut == ()


def test_a_cut_link_stays_avoided_when_its_end_hangs_and_returns(network):
    network.hear(leaf0=["spine0"], spine0=["leaf0"])
    network.lose("spine0")
    network.hear_all_but("spine0", leaf0=["spine0"])
    assert network.live.cut == (UPLINK,)
    network.hear_again("spine0")
    network.hear(leaf0=["spine0"])  # the switch may have been started anew, and have heard nothing
    assert network.live.lost == ()
    assert network.live.cut == (UPLINK,)
    network.hear()
    assert network.live.cut == ()


def test_links_of_an_unresponsive_node_do_not_count_as_cut(network):
    network.outages.on_answer("leaf0", ["spine0"])
    network.end_round()
    assert network.live.cut == ()
    network.hear(spine0=["leaf0"])
    network.lose("spine0")
    network.outages.on_answer("leaf0", ["spine0"])
    network.end_round()
    assert network.live.cut == ()
    assert network.live.lost == ("spine0",)


def test_reports_from_before_a_node_was_stopped_cut_no_link(network):
    network.hear(h3=["leaf1"])  # its switch had just been started again
    network.outages.on_answer("leaf1", ["h3"])
    network.end_round(slow=("h3",))
    assert network.live.cut == ()
    network.hear(h3=["leaf1"], leaf1=["h3"])
    assert network.live.cut == (("h3", "leaf1"),)
    network.end_round(slow=("h3",))
    assert network.live.cut == (("h3", "leaf1"),)


def test_a_cut_link_of_a_host_without_a_worker_stays_avoided_until_the_next_worker_receives(
    network,
):
    network.hear(h0=["leaf0"], leaf0=["h0"])
    network.now_s = 10
    network.hear(h0=["leaf0"], leaf0=["h0"])
    assert network.live.separation(["h0", "h1"]) is not None
    network.end_round(tuple(set(NODES) - {"h0"}))
    assert network.live.cut == (("h0", "leaf0"),)
    assert network.live.separation(["h0", "h1"]) is None
    network.now_s = 100
    network.end_round(tuple(set(NODES) - {"h0"}))
    network.hear(leaf0=["h0"])
    assert network.live.separation(["h0", "h1"]) is None
    network.hear()
    assert network.live.cut == ()


def test_reports_from_before_a_node_was_stopped_fail_nobody(network):
    network.hear(h0=["leaf0"], leaf0=["h0"])
    network.now_s = 5
    network.hear(h0=["leaf0"], leaf0=["h0"])
    for network.now_s in range(6, 30):  # the link has healed, but nobody at its end can say so
        network.hear_all_but("h0", leaf0=["h0"])
    assert network.live.separation(["h0", "h1"]) is None
    network.hear(h0=["leaf0"], leaf0=["h0"])  # goes on, and has heard nothing yet
    assert network.live.separation(["h0", "h1"]) is None
    network.hear()
    assert network.live.cut == ()


def test_ranks_without_another_path_are_reported_after_the_timeout(network):
    network.hear(h0=["leaf0"], leaf0=["h0"])
    network.now_s = 9.9
    network.end_round()
    assert network.live.separation(["h0", "h1"]) is None
    network.now_s = 10
    network.end_round()
    assert network.live.separation(["h0", "h1"]) == (
        "the link h0--leaf0 has carried nothing for 10 s; no other path leads from h0 to h1"
    )
    assert network.live.separation(["h1", "h2"]) is None
    network.hear()
    assert network.live.separation(["h0", "h1"]) is None


def test_a_permanently_hung_switch_is_named(network):
    network.lose("leaf1")
    network.now_s = 10
    network.end_round()
    assert network.live.separation(["h0", "h2"]) == (
        "switch leaf1 has not answered for 10 s; no other path leads from h0 to h2"
    )
    network.hear_again("leaf1")
    assert network.live.lost == ()


def test_a_switch_with_a_supervised_process_is_not_given_up(network):
    network.lose("leaf1")
    network.outages.forget("leaf1")
    network.now_s = 100
    network.end_round()
    assert network.live.separation(["h0", "h2"]) is None
