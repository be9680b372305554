"""The controller tells nodes where prefixes are served, and when that changes."""

from __future__ import annotations

from typing import Any

import pytest

from innet.cluster.control.actions import MessageOutcome, Outbox, Send
from innet.cluster.control.announcements import Announcements
from innet.cluster.control.placements import LiveTopology, Loss
from innet.errors import NoAnswer
from innet.node.messages import ServedPrefixes
from innet.topology import load_topology

# h0 -- leaf0 -- (spine0, spine1) -- leaf1 -- h1, and h2, h3 beside them; delays count in cost.
TOPOLOGY = load_topology("leaf-spine:2x2x2")
HOSTS = TOPOLOGY.hosts
LIVE = LiveTopology(TOPOLOGY)

Served = dict[str, dict[int, int]]
"""The cost of each face by which a node looks for a prefix."""


class Nodes:
    """All nodes, which take their updates, and the time."""

    def __init__(self, announcements: Announcements, outbox: Outbox) -> None:
        self.served: dict[str, Served] = {node: {} for node in TOPOLOGY.nodes}
        self.told: list[str] = []
        self.silent: set[str] = set()
        self.now_s = 0.0
        self._announcements = announcements
        self._outbox = outbox
        self._serials: dict[str, int] = {}

    def update(self, until_s: float = 0.0) -> None:
        """Let pass the time in which all that answer are updated, or more."""
        until_s = max(until_s, self.now_s + 0.5)
        while (next_s := self._announcements.next_round_s) is not None and next_s <= until_s:
            self.now_s = max(self.now_s, next_s)
            self._announcements.on_timer(self.now_s)
            for action in self._outbox.take():
                assert isinstance(action, Send)
                self._outbox.sent(action.number, [self._outcome(action)])
        self.now_s = until_s

    def look_for(self, server: str) -> tuple[str, ...]:
        """The prefixes that all nodes but ``server`` have routes to, when all have the same."""
        self.update()
        others = [node for node in TOPOLOGY.nodes if node != server]
        (prefixes,) = {tuple(sorted(self.served[node])) for node in others}
        return prefixes

    def _outcome(self, update: Send) -> MessageOutcome:
        if update.node in self.silent:
            return MessageOutcome(error=NoAnswer(f"{update.node} hangs"))
        ((method, params),) = update.messages
        assert method == "set_network_routes"
        self._take(update.node, **params)
        return MessageOutcome()

    def _take(self, node: str, served: Any, anew: bool, serial: int) -> None:
        assert serial > self._serials.get(node, 0)
        self._serials[node] = serial
        self.told.append(node)
        known = {} if anew else self.served[node]
        self.served[node] = known
        for prefixes, hops in served:
            for prefix in prefixes:
                known[prefix] = dict(hops)
                if not hops:
                    del known[prefix]


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def announcements(outbox: Outbox) -> Announcements:
    made = Announcements(LIVE, outbox, TOPOLOGY.switches)
    for host in HOSTS:
        made.begin(host)
    return made


@pytest.fixture
def nodes(announcements: Announcements, outbox: Outbox) -> Nodes:
    return Nodes(announcements, outbox)


def announce(
    announcements: Announcements, node: str, *prefixes: str, version: int = 1
) -> dict[str, str]:
    return announcements.announce(node, ServedPrefixes(version=version, prefixes=prefixes))


def test_all_nodes_have_routes_to_a_prefix_until_it_is_withdrawn(announcements, nodes):
    announce(announcements, "h0", "/sum")
    assert nodes.look_for("h0") == ("/sum",)
    for node in TOPOLOGY.nodes:
        if node != "h0":
            face = LIVE.next_hops[node]["h0"]
            assert nodes.served[node]["/sum"] == {face: LIVE.distance(node, "h0")}
    assert "h0" not in nodes.told
    announce(announcements, "h0", version=2)
    assert nodes.look_for("h0") == ()


def test_the_nearer_of_two_servers_has_the_lower_cost(announcements, nodes):
    near, far = "h0", HOSTS[-1]
    announce(announcements, near, "/sum")
    announce(announcements, far, "/sum")
    hops = LIVE.next_hops["leaf0"]
    nodes.update()
    costs = nodes.served["leaf0"]["/sum"]
    assert costs[hops[near]] < costs[hops[far]]
    assert costs[hops[far]] == LIVE.distance("leaf0", far)
    announcements.end(near)
    nodes.update()
    assert nodes.served["leaf0"]["/sum"] == {hops[far]: costs[hops[far]]}


def test_hundreds_of_prefixes_take_one_message_to_each_node(announcements, nodes):
    prefixes = [f"/data/{i}" for i in range(500)]
    announce(announcements, "h0", *prefixes)
    assert nodes.look_for("h0") == tuple(sorted(prefixes))
    assert len(nodes.told) == len(TOPOLOGY.nodes) - 1


def test_reserved_names_are_not_announced(announcements, nodes):
    announcements.keep_apart(["/j1", "/train.2"])
    apart = ["/", "/localhost/x", "/localhop/x", "/n/h0/app", "/kv/x", "/j1/x", "/j1", "/train.2"]
    why = announce(announcements, "h0", *apart, "/j10", "/train")
    assert set(why) == set(apart)
    assert "names of a job" in why["/j1/x"]
    assert nodes.look_for("h0") == ("/j10", "/train")


def test_announcements_below_the_prefix_of_a_job_are_suspended_while_it_runs(announcements, nodes):
    announce(announcements, "h0", "/j1/x", "/sum")
    assert nodes.look_for("h0") == ("/j1/x", "/sum")
    announcements.keep_apart(["/j1"])
    assert nodes.look_for("h0") == ("/sum",)
    announcements.keep_apart([])
    assert nodes.look_for("h0") == ("/j1/x", "/sum")


def test_routes_avoid_lost_nodes(announcements, nodes):
    announce(announcements, "h0", "/sum")
    assert nodes.look_for("h0") == ("/sum",)
    far_leaf = "leaf1"
    face = LIVE.next_hops[far_leaf]["h0"]
    spine = next(s for s in ("spine0", "spine1") if LIVE.next_hops[far_leaf][s] == face)
    without = LIVE.without(spine, Loss("was killed", returns=True))
    announcements.begin(spine)
    announcements.adapt(without)
    nodes.update()
    assert set(nodes.served[far_leaf]["/sum"]) == {without.next_hops[far_leaf]["h0"]}
    assert face not in nodes.served[far_leaf]["/sum"]
    nodes.served[spine] = {}  # its process has been started again, and knows nothing
    announcements.adapt(LIVE)
    nodes.update()
    assert set(nodes.served[spine]) == {"/sum"}
    assert set(nodes.served[far_leaf]["/sum"]) == {face}


def test_there_are_no_routes_to_an_unreachable_prefix(announcements, nodes):
    announce(announcements, "h0", "/sum")
    assert nodes.look_for("h0") == ("/sum",)
    announcements.adapt(LIVE.without("leaf0", Loss("was killed", returns=True)))
    nodes.update()
    assert nodes.served["leaf1"] == nodes.served["spine0"] == {}


def test_a_node_that_answers_again_receives_all_routes(announcements, nodes):
    announce(announcements, "h0", "/a", "/b")
    assert nodes.look_for("h0") == ("/a", "/b")
    nodes.silent.add("h1")
    announce(announcements, "h0", "/b", "/c", version=2)
    nodes.update()
    assert nodes.served["h1"].keys() == {"/a", "/b"}
    nodes.served["h1"]["/stale"] = {0: 1}
    nodes.silent.clear()
    nodes.update(until_s=nodes.now_s + 1.0)
    assert nodes.look_for("h0") == ("/b", "/c")


def test_the_next_controller_sends_the_current_routes_only(outbox):
    after = Announcements(LIVE, outbox, TOPOLOGY.switches, generation=1)
    nodes = Nodes(after, outbox)
    nodes.served = {node: {"/stale": {0: 1}} for node in TOPOLOGY.nodes}
    after.restore(
        {
            host: ServedPrefixes(version=3, prefixes=("/sum",) if host == "h0" else ())
            for host in HOSTS
        }
    )
    assert nodes.look_for("h0") == ("/sum",)
    assert nodes.served["h0"] == {}


def test_an_outdated_announcement_is_ignored(announcements, nodes):
    announce(announcements, "h0", "/new", version=2)
    announce(announcements, "h0", "/old", version=1)
    assert nodes.look_for("h0") == ("/new",)
    announcements.end("h0")
    announce(announcements, "h0", "/after/its/end", version=3)
    assert nodes.look_for("h0") == ()
