"""Switches and links that fall silent: gone round, waited for, given up, and taken back."""

from __future__ import annotations

import threading

import pytest

from innet.cluster.control.outages import Change, Outages
from innet.node.control.survivors import Survivors
from innet.settings import RecoverySettings
from innet.topology import load_topology

TOPOLOGY = load_topology("leaf-spine:2x2x2")
NODES = TOPOLOGY.nodes
UPLINK = ("leaf0", "spine0")


class Network:
    """A network as its outages change it, and a clock."""

    def __init__(self) -> None:
        self.survivors = Survivors(TOPOLOGY)
        self.now_s = 0.0
        settings = RecoverySettings(link_timeout_s=3, partition_timeout_s=10)
        self.outages = Outages(threading.RLock(), self._change, settings, lambda: self.now_s)

    def _change(self, change: Change) -> None:
        self.survivors = change(self.survivors)

    def hear(self, **unheard: list[str]) -> None:
        """A round in which all nodes answer, some with neighbours that they do not hear."""
        self.hear_all_but(None, **unheard)

    def hear_all_but(self, stopped: str | None, **unheard: list[str]) -> None:
        """A round in which ``stopped`` does not answer."""
        answering = [node for node in NODES if node != stopped]
        for node in answering:
            self.outages.on_answer(node, unheard.get(node, []))
        self.outages.on_round(tuple(NODES), slow=[stopped] if stopped else [])


@pytest.fixture
def network() -> Network:
    return Network()


def test_a_link_that_both_ends_find_silent_is_gone_round_until_both_hear_again(network):
    network.hear(leaf0=["spine0"], spine0=["leaf0"])
    assert network.survivors.cut == (UPLINK,)
    assert (
        network.survivors.next_hops["leaf0"]["spine0"]
        == (network.survivors.next_hops["leaf0"]["spine1"])
    )
    network.hear(leaf0=["spine0"])
    assert network.survivors.cut == (UPLINK,)
    network.hear()
    assert network.survivors.cut == ()


def test_a_cut_link_is_not_used_again_because_its_end_hangs_and_returns(network):
    network.hear(leaf0=["spine0"], spine0=["leaf0"])
    network.outages.on_silent("spine0")
    network.hear_all_but("spine0", leaf0=["spine0"])
    assert network.survivors.cut == (UPLINK,)
    network.outages.on_heard("spine0")
    network.hear(leaf0=["spine0"])  # the switch may have been started anew, and have heard nothing
    assert network.survivors.lost == ()
    assert network.survivors.cut == (UPLINK,)
    network.hear()
    assert network.survivors.cut == ()


def test_a_node_that_says_nothing_may_itself_be_why_its_neighbours_hear_nothing(network):
    network.outages.on_answer("leaf0", ["spine0"])
    network.outages.on_round(tuple(NODES))
    assert network.survivors.cut == ()
    network.hear(spine0=["leaf0"])
    network.outages.on_silent("spine0")
    network.outages.on_answer("leaf0", ["spine0"])
    network.outages.on_round(tuple(NODES))
    assert network.survivors.cut == ()
    assert network.survivors.lost == ("spine0",)


def test_what_a_node_said_before_it_was_stopped_cuts_no_link(network):
    network.hear(h3=["leaf1"])  # its switch had just been started again
    network.outages.on_answer("leaf1", ["h3"])
    network.outages.on_round(tuple(NODES), slow=["h3"])
    assert network.survivors.cut == ()
    network.hear(h3=["leaf1"], leaf1=["h3"])
    assert network.survivors.cut == (("h3", "leaf1"),)
    network.outages.on_round(tuple(NODES), slow=["h3"])
    assert network.survivors.cut == (("h3", "leaf1"),)


def test_a_cut_link_of_a_host_whose_worker_is_gone_waits_for_the_next_one_to_hear(network):
    network.hear(h0=["leaf0"], leaf0=["h0"])
    network.now_s = 10
    network.hear(h0=["leaf0"], leaf0=["h0"])
    assert network.survivors.separation(["h0", "h1"]) is not None
    network.outages.on_round(tuple(set(NODES) - {"h0"}))
    assert network.survivors.cut == (("h0", "leaf0"),)
    assert network.survivors.separation(["h0", "h1"]) is None
    network.now_s = 100
    network.outages.on_round(tuple(set(NODES) - {"h0"}))
    network.hear(leaf0=["h0"])
    assert network.survivors.separation(["h0", "h1"]) is None
    network.hear()
    assert network.survivors.cut == ()


def test_nobody_is_given_up_for_what_a_stopped_node_said_before(network):
    network.hear(h0=["leaf0"], leaf0=["h0"])
    network.now_s = 5
    network.hear(h0=["leaf0"], leaf0=["h0"])
    for network.now_s in range(6, 30):  # the link has healed, but nobody at its end can say so
        network.hear_all_but("h0", leaf0=["h0"])
    assert network.survivors.separation(["h0", "h1"]) is None
    network.hear(h0=["leaf0"], leaf0=["h0"])  # goes on, and has heard nothing yet
    assert network.survivors.separation(["h0", "h1"]) is None
    network.hear()
    assert network.survivors.cut == ()


def test_who_has_no_other_path_is_told_once_it_is_given_up(network):
    network.hear(h0=["leaf0"], leaf0=["h0"])
    network.now_s = 9.9
    network.outages.on_round(tuple(NODES))
    assert network.survivors.separation(["h0", "h1"]) is None
    network.now_s = 10
    network.outages.on_round(tuple(NODES))
    assert network.survivors.separation(["h0", "h1"]) == (
        "the link h0--leaf0 has carried nothing for 10 s; no other path leads from h0 to h1"
    )
    assert network.survivors.separation(["h1", "h2"]) is None
    network.hear()
    assert network.survivors.separation(["h0", "h1"]) is None


def test_a_switch_that_hangs_for_good_is_named(network):
    network.outages.on_silent("leaf1")
    network.now_s = 10
    network.outages.on_round(tuple(NODES))
    assert network.survivors.separation(["h0", "h2"]) == (
        "switch leaf1 has not answered for 10 s; no other path leads from h0 to h2"
    )
    network.outages.on_heard("leaf1")
    assert network.survivors.lost == ()


def test_a_switch_whose_process_somebody_sees_to_is_not_given_up(network):
    network.outages.on_silent("leaf1")
    network.outages.forget("leaf1")
    network.now_s = 100
    network.outages.on_round(tuple(NODES))
    assert network.survivors.separation(["h0", "h2"]) is None
