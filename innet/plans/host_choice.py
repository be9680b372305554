"""The hosts of a job that says only how many ranks it has: near each other, and little used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from innet.errors import PlanError
from innet.plans.aggregation_tree import rank_order
from innet.plans.load import NO_LOAD, Load
from innet.quantities import counted
from innet.topology import Topology

_MOST_BEGINNINGS = 64
"""Racks from which a choice is tried; each takes as long as a walk over the network."""


@dataclass(frozen=True, slots=True)
class HostChoice:
    """The hosts of a job, in the order of its ranks.

    Attributes:
        hosts: one for each rank.
        switches: that join them: the tree of the job's sums has no more.
        why: the reason in one sentence.
    """

    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    why: str


def choose_hosts(
    topology: Topology, ranks: int, *, taken: Collection[str] = (), load: Load = NO_LOAD
) -> HostChoice:
    """The hosts of a job of ``ranks`` ranks: those that the fewest switches join.

    Of equally near ones, those whose links, processors and switches others use least and for which
    other ranks wait least; then those that leave the fewest hosts of their racks unused.

    Args:
        topology: of the network.
        ranks: how many hosts.
        taken: hosts of other jobs.
        load: what others use of the network.

    Raises:
        PlanError: the network has not as many free hosts.

    >>> choose_hosts(load_topology("leaf-spine-16"), 4).hosts     # doctest: +SKIP
    ('h0', 'h1', 'h2', 'h3')
    """
    free = [host for host in topology.hosts if host not in taken]
    if not 1 <= ranks <= len(free):
        raise PlanError(_too_many(topology, ranks, len(free)))
    racks = _Racks(topology, free, load)
    found = [racks.choose_from(rack, ranks) for rack in racks.beginnings()]
    best = min(found, key=lambda choice: choice.order)
    where = f"the fewest switches that join {counted(ranks, 'free host')}"
    beside = f"; {counted(len(topology.hosts) - len(free), 'host')} in use by jobs" if taken else ""
    return HostChoice(
        hosts=rank_order(topology, best.hosts),
        switches=best.switches,
        why=f"{', '.join(best.switches) or 'no switch'}: {where}, and of those the least used, "
        f"among {len(free)} free hosts{beside}.",
    )


def _too_many(topology: Topology, ranks: int, free: int) -> str:
    hosts = len(topology.hosts)
    if ranks < 1:
        return f"a job has at least 1 rank, not {ranks}; name the number of hosts that it needs"
    if ranks > hosts:
        return (
            f"{ranks} ranks need as many hosts, and {topology.name} has {hosts}. Ask for at most "
            f"{hosts}, or launch a larger network"
        )
    return (
        f"{ranks} ranks need as many free hosts, and {topology.name} has {free}: jobs run on the "
        f"other {hosts - free}. Ask for fewer, or wait; `innet status` shows the jobs of a network"
    )


@dataclass(frozen=True, slots=True)
class _Candidate:
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    order: tuple[int, float, int]
    """How many switches, how much others use, and how many hosts of the racks are left over."""


class _Racks:
    """The free hosts by the switch that they are connected to."""

    def __init__(self, topology: Topology, free: Sequence[str], load: Load) -> None:
        self._topology = topology
        self._load = load
        self._switches = frozenset(topology.switches)
        self._hosts_at: dict[str, list[str]] = {}
        for host in free:
            self._hosts_at.setdefault(self._gate(host), []).append(host)
        for hosts in self._hosts_at.values():
            hosts.sort(key=self._use_of_host)  # stable: else in the order of the topology

    def beginnings(self) -> list[str]:
        """The racks to begin with: large and little used ones first."""
        racks = sorted(
            self._hosts_at, key=lambda rack: (-len(self._hosts_at[rack]), self._use(rack))
        )
        return racks[:_MOST_BEGINNINGS]

    def choose_from(self, rack: str, ranks: int) -> _Candidate:
        """``rack`` and those nearest to it, as many as ``ranks`` need."""
        towards = self._walk(rack)
        waiting = [other for other in towards if other in self._hosts_at]
        chosen: list[str] = []
        used = {}
        while len(chosen) < ranks:
            needed = ranks - len(chosen)
            rack = min(waiting, key=lambda other: self._next(other, len(towards[other]), needed))
            waiting.remove(rack)
            chosen += self._hosts_at[rack][:needed]
            used.update(dict.fromkeys(towards[rack]))
        switches = tuple(node for node in used if node in self._switches)
        use = max((self._use_of_host(host) for host in chosen), default=0.0)
        use += max((self._use(node) for node in switches), default=0.0)
        left_over = (
            sum(len(self._hosts_at[node]) for node in used if node in self._hosts_at) - ranks
        )
        return _Candidate(tuple(chosen), switches, (len(switches), round(use, 2), left_over))

    def _next(self, rack: str, distance: int, needed: int) -> tuple[int, int, float, int]:
        """Near racks first; of those the ones with enough hosts, little used and no larger."""
        hosts = len(self._hosts_at[rack])
        missing = max(needed - hosts, 0)
        return distance, missing, round(self._use(rack), 2), hosts

    def _gate(self, host: str) -> str:
        """The only neighbour of ``host``, or itself."""
        neighbours = list(self._topology.links_of[host])
        return neighbours[0] if len(neighbours) == 1 else host

    def _walk(self, rack: str) -> dict[str, tuple[str, ...]]:
        """The nodes on a shortest path from ``rack`` to each node but hosts, nearest first."""
        paths: dict[str, tuple[str, ...]] = {rack: (rack,)}
        pending = [rack]
        for node in pending:
            peers = (p for p in self._topology.links_of[node] if p not in paths)
            for peer in sorted(peers, key=self._use):
                if peer in self._hosts_at or peer in self._switches:
                    paths[peer] = (*paths[node], peer)
                    pending.append(peer)
        return paths

    def _use_of_host(self, host: str) -> float:
        return self._use(host) + self._load.late.get(host, 0.0)

    def _use(self, node: str) -> float:
        """What others use of a node and its links: of the processor, and of the fullest link."""
        if self._load.is_empty:
            return 0.0
        shares = (
            max(
                self._load.link_share(self._topology, node, peer),
                self._load.link_share(self._topology, peer, node),
            )
            for peer in self._topology.links_of[node]
        )
        return self._load.processor.get(node, 0.0) + max(shares, default=0.0)
