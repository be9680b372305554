"""Who is told where prefixes are served, and when that changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from innet.cluster.control.announcements import Announcements
from innet.errors import NoAnswer
from innet.node.control.messenger import Messenger
from innet.node.control.protocol import Registrations
from innet.node.control.survivors import Loss, Survivors
from innet.topology import load_topology

# h0 -- leaf0 -- (spine0, spine1) -- leaf1 -- h1, and h2, h3 beside them; delays count in cost.
TOPOLOGY = load_topology("leaf-spine:2x2x2")
HOSTS = TOPOLOGY.hosts
SURVIVORS = Survivors(TOPOLOGY)

Served = dict[str, dict[int, int]]
"""The cost of each face by which a node looks for a prefix."""


class Nodes:
    """Stands in for the control sockets of all nodes, which do as they are told."""

    def __init__(self) -> None:
        self.served: dict[str, Served] = {}
        self.told: list[str] = []
        self.silent: set[str] = set()
        self.asked_in_vain: set[str] = set()
        self._serials: dict[str, int] = {}
        self._changed = threading.Condition()

    def connect(self, node: str) -> Any:
        nodes = self

        class Client:
            def ask(self, method: str, *, timeout_s: float, **params: Any) -> None:
                assert method == "set_network_routes"
                nodes.hear(node, **params)

            def __enter__(self) -> Client:
                return self

            def __exit__(self, *_: object) -> None:
                pass

        return Client()

    def hear(self, node: str, served: Any, anew: bool, serial: int) -> None:
        with self._changed:
            if node in self.silent:
                self.asked_in_vain.add(node)
                self._changed.notify_all()
                raise NoAnswer(f"{node} hangs")
            assert serial > self._serials.get(node, 0)
            self._serials[node] = serial
            self.told.append(node)
            known = {} if anew else self.served.setdefault(node, {})
            self.served[node] = known
            for prefixes, hops in served:
                for prefix in prefixes:
                    known[prefix] = dict(hops)
                    if not hops:
                        del known[prefix]
            self._changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, 20), self.served

    def until_all_but(self, server: str, *prefixes: str) -> None:
        """All others look for just these."""
        others = [node for node in TOPOLOGY.nodes if node != server]
        self.until(lambda: all(set(self.served.get(n, ())) == set(prefixes) for n in others))


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def announcements(nodes: Nodes) -> Iterator[Announcements]:
    messenger = Messenger(nodes.connect)
    made = Announcements(SURVIVORS, messenger, TOPOLOGY.switches)
    for host in HOSTS:
        made.begin(host)
    yield made
    made.close()
    messenger.close()


def announce(
    announcements: Announcements, node: str, *prefixes: str, version: int = 1
) -> dict[str, str]:
    return announcements.announce(node, Registrations(version=version, prefixes=prefixes))


def test_all_others_look_for_a_prefix_along_their_paths_until_it_is_served_no_more(
    announcements, nodes
):
    announce(announcements, "h0", "/sum")
    nodes.until_all_but("h0", "/sum")
    for node in TOPOLOGY.nodes:
        if node != "h0":
            face = SURVIVORS.next_hops[node]["h0"]
            assert nodes.served[node]["/sum"] == {face: SURVIVORS.distance(node, "h0")}
    assert "h0" not in nodes.told
    announce(announcements, "h0", version=2)
    nodes.until_all_but("h0")


def test_of_two_servers_the_nearer_one_costs_less(announcements, nodes):
    near, far = "h0", HOSTS[-1]
    announce(announcements, near, "/sum")
    announce(announcements, far, "/sum")
    hops = SURVIVORS.next_hops["leaf0"]
    nodes.until(lambda: len(nodes.served.get("leaf0", {}).get("/sum", ())) == 2)
    costs = nodes.served["leaf0"]["/sum"]
    assert costs[hops[near]] < costs[hops[far]]
    assert costs[hops[far]] == SURVIVORS.distance("leaf0", far)
    announcements.end(near)
    nodes.until(lambda: nodes.served["leaf0"]["/sum"] == {hops[far]: costs[hops[far]]})


def test_hundreds_of_prefixes_are_one_message_to_each_node(announcements, nodes):
    prefixes = [f"/data/{i}" for i in range(500)]
    announce(announcements, "h0", *prefixes)
    nodes.until_all_but("h0", *prefixes)
    assert len(nodes.told) == len(TOPOLOGY.nodes) - 1


def test_names_that_are_not_programs_are_told_to_nobody(announcements, nodes):
    announcements.keep_apart(["/j1", "/train.2"])
    apart = ["/", "/localhost/x", "/localhop/x", "/n/h0/app", "/kv/x", "/j1/x", "/j1", "/train.2"]
    why = announce(announcements, "h0", *apart, "/j10", "/train")
    assert set(why) == set(apart)
    assert "a job's own" in why["/j1/x"]
    nodes.until_all_but("h0", "/j10", "/train")


def test_a_job_that_begins_has_its_names_for_itself(announcements, nodes):
    announce(announcements, "h0", "/j1/x", "/sum")
    nodes.until_all_but("h0", "/j1/x", "/sum")
    announcements.keep_apart(["/j1"])
    nodes.until_all_but("h0", "/sum")
    announcements.keep_apart([])
    nodes.until_all_but("h0", "/j1/x", "/sum")


def test_the_network_works_round_what_is_gone(announcements, nodes):
    announce(announcements, "h0", "/sum")
    nodes.until_all_but("h0", "/sum")
    far_leaf = "leaf1"
    face = SURVIVORS.next_hops[far_leaf]["h0"]
    spine = next(s for s in ("spine0", "spine1") if SURVIVORS.next_hops[far_leaf][s] == face)
    without = SURVIVORS.without(spine, Loss("was killed", returns=True))
    announcements.begin(spine)
    announcements.adapt(without)
    nodes.until(lambda: set(nodes.served[far_leaf]["/sum"]) == {without.next_hops[far_leaf]["h0"]})
    assert face not in nodes.served[far_leaf]["/sum"]
    nodes.served[spine] = {}  # its process has been started again, and knows nothing
    announcements.adapt(SURVIVORS)
    nodes.until(lambda: set(nodes.served[spine]) == {"/sum"})
    nodes.until(lambda: set(nodes.served[far_leaf]["/sum"]) == {face})


def test_nobody_looks_for_what_cannot_be_reached(announcements, nodes):
    announce(announcements, "h0", "/sum")
    nodes.until_all_but("h0", "/sum")
    announcements.adapt(SURVIVORS.without("leaf0", Loss("was killed", returns=True)))
    nodes.until(lambda: nodes.served["leaf1"] == nodes.served["spine0"] == {})


def test_whoever_did_not_hear_is_told_everything_when_it_answers_again(announcements, nodes):
    announce(announcements, "h0", "/a", "/b")
    nodes.until_all_but("h0", "/a", "/b")
    nodes.silent.add("h1")
    announce(announcements, "h0", "/b", "/c", version=2)
    nodes.until(lambda: "h1" in nodes.asked_in_vain)
    nodes.served["h1"]["/stale"] = {0: 1}
    nodes.silent.clear()
    nodes.until_all_but("h0", "/b", "/c")


def test_the_next_controller_tells_what_holds_now_and_nothing_else(nodes):
    nodes.served = {node: {"/stale": {0: 1}} for node in TOPOLOGY.nodes}
    messenger = Messenger(nodes.connect)
    after = Announcements(SURVIVORS, messenger, TOPOLOGY.switches, generation=1)
    after.restore(
        {
            host: Registrations(version=3, prefixes=("/sum",) if host == "h0" else ())
            for host in HOSTS
        }
    )
    nodes.until_all_but("h0", "/sum")
    nodes.until(lambda: nodes.served["h0"] == {})
    after.close()
    messenger.close()


def test_an_announcement_that_was_overtaken_means_nothing(announcements, nodes):
    announce(announcements, "h0", "/new", version=2)
    announce(announcements, "h0", "/old", version=1)
    nodes.until_all_but("h0", "/new")
    announcements.end("h0")
    announce(announcements, "h0", "/after/its/end", version=3)
    nodes.until_all_but("h0")
