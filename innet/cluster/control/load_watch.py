"""The load of the links, nodes and ranks of a network, from the nodes' periodic reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median

from innet.node.messages import NodeReading
from innet.plans import Load, Plan
from innet.plans.bounds import DirectedLink, folded_link_bytes
from innet.plans.folding import fold
from innet.topology import Topology
from innet.topology.routes import Routes

Traffic = Mapping[DirectedLink, float]
"""Bits a second by directed link."""

_LEAST_SHARE = 0.02
"""The least share of a link or processor that counts as load."""
_LATE_WEIGHT = 0.2
"""Weight of the latest reading in the average share of time in which a host is late."""
_OWN_BPS = 1e5
"""A job that sends less has no measurable share of the links."""


_KEPT_PLANS = 256


class LoadWatch:
    """Rates of links, processors and slots over the latest readings of each node."""

    def __init__(self, topology: Topology, interval_s: float) -> None:
        """Rates are means over ``interval_s`` or a little more."""
        self._topology = topology
        self._interval_s = interval_s
        self._before: dict[str, NodeReading] = {}
        self._latest: dict[str, NodeReading] = {}
        self._rates_bps: dict[DirectedLink, float] = {}
        self._processor: dict[str, float] = {}
        self._late: dict[str, float] = {}
        self._waits_for: dict[str, tuple[str, ...]] = {}
        self._relatives: dict[int, tuple[Plan, Traffic]] = {}

    def on_reading(self, node: str, reading: NodeReading) -> None:
        """``node`` reports its counters; a node that was started again begins anew."""
        before = self._before.setdefault(node, reading)
        self._latest[node] = reading
        self._waits_for[node] = reading.late
        passed_s = reading.time_s - before.time_s
        if reading.cpu_s < before.cpu_s or passed_s < 0:
            self._before[node] = reading
        elif passed_s >= self._interval_s:
            self._before[node] = reading
            self._processor[node] = (reading.cpu_s - before.cpu_s) / passed_s
            for source, to, then, now in _counted(node, before, reading):
                self._rates_bps[source, to] = max(now - then, 0) * 8 / passed_s

    def on_late(self, hosts: Iterable[str]) -> None:
        """Other ranks wait for these hosts at the moment."""
        now_late = set(hosts)
        for host in {*self._late, *now_late}:
            before = self._late.get(host, 0.0)
            self._late[host] = before + _LATE_WEIGHT * ((host in now_late) - before)

    def take_late_labels(self) -> frozenset[str]:
        """The labels (``producer_label``) of the ranks that some node waits for.

        Each reading counts once: a node whose process has ended waits for nobody.
        """
        waits_for, self._waits_for = self._waits_for, {}
        return frozenset(label for late in waits_for.values() for label in late)

    @property
    def traffic(self) -> Traffic:
        """The traffic of all jobs together on each known link."""
        return self._rates_bps

    def load(self, own: Traffic, prefix: str | None = None) -> Load:
        """The load without ``own`` traffic and without the slots of the job ``prefix``.

        The processor of a node is divided as the traffic through it is.
        """
        links: defaultdict[str, dict[str, float]] = defaultdict(dict)
        through: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for (source, to), rate_bps in self._rates_bps.items():
            others_bps = max(rate_bps - own.get((source, to), 0.0), 0.0)
            for node in (source, to):
                through[node][0] += others_bps
                through[node][1] += rate_bps
            limit_bps = self._topology.link_between(source, to).rate_bps
            if limit_bps is not None and others_bps > limit_bps * _LEAST_SHARE:
                links[source][to] = round(others_bps)
        processor = {
            node: round(busy * through[node][0] / through[node][1], 3)
            for node, busy in self._processor.items()
            if through[node][1] and busy * through[node][0] > _LEAST_SHARE * through[node][1]
        }
        late = {host: round(part, 3) for host, part in self._late.items() if part > _LEAST_SHARE}
        return Load(
            link_bps=dict(links), processor=processor, free_slots=self._full(prefix), late=late
        )

    def _full(self, prefix: str | None) -> dict[str, int]:
        """The switches in which others leave no slots."""
        free = {
            node: reading.slots - sum(n for job, n in reading.slots_in_use.items() if job != prefix)
            for node, reading in self._latest.items()
            if reading.slots > 0
        }
        return {node: 0 for node, slots in free.items() if slots <= 0}

    def _relative(self, plan: Plan, routes: Routes) -> Traffic:
        """The traffic of a plan's sums for each byte; cached for the latest plans."""
        known = self._relatives.pop(id(plan), None)
        if known is None:
            shares = [1 / len(plan.roots)] * len(plan.roots)
            known = plan, folded_link_bytes(fold(plan, routes), routes, shares)
        self._relatives[id(plan)] = known  # the plan is kept, and so is its identity
        while len(self._relatives) > _KEPT_PLANS:
            del self._relatives[next(iter(self._relatives))]
        return known[1]

    def own_traffic(self, plans: Iterable[Plan], routes: Routes) -> Traffic:
        """The traffic of a job with these in-network plans, derived from its ranks' own links.

        Links of hosts carry nothing but their job. The plan says what its sums send on the other
        links for each byte of that.
        """
        own: defaultdict[DirectedLink, float] = defaultdict(float)
        for plan in plans:
            relative = self._relative(plan, routes)
            of_hosts = [
                (rank, peer) for rank in plan.ranks for peer in self._topology.links_of[rank]
            ]
            sent_bps = [
                self._rates_bps.get(link, 0.0) / relative[link]
                for link in of_hosts
                if relative.get(link)
            ]
            rate_bps = median(sent_bps) if sent_bps else 0.0
            for link, part in relative.items():
                own[link] = max(own[link], part * rate_bps)
            for rank, peer in of_hosts:
                for link in ((rank, peer), (peer, rank)):
                    own[link] = max(own[link], self._rates_bps.get(link, 0.0))
        return own if max(own.values(), default=0.0) > _OWN_BPS else {}


def _counted(
    node: str, before: NodeReading, now: NodeReading
) -> Iterable[tuple[str, str, int, int]]:
    for peer, count in now.sent_bytes.items():
        yield node, peer, before.sent_bytes.get(peer, count), count
    for peer, count in now.received_bytes.items():
        yield peer, node, before.received_bytes.get(peer, count), count
