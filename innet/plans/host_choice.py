"""The hosts of a job that says only how many ranks it has: near each other, and little used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

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
        taken: hosts of other jobs, and those that are out of reach.
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
    beside = (
        f"; {counted(len(topology.hosts) - len(free), 'host')} in use or out of reach"
        if taken
        else ""
    )
    return HostChoice(
        hosts=rank_order(topology, best.hosts),
        switches=best.switches,
        why=f"{', '.join(best.switches) or 'no switch'}: {where}, and of those the least used, "
        f"among {len(free)} free hosts{beside}.",
    )


def _too_many(topology: Topology, ranks: int, free: int) -> str:
    hosts = len(topology.hosts)
    has_several = any(topology.machine_of[host] != host for host in topology.hosts)
    places = "workers" if has_several else "hosts"
    if ranks < 1:
        return f"a job has at least 1 rank, not {ranks}; name the number of {places} that it needs"
    if ranks > hosts:
        return (
            f"{ranks} ranks need as many {places}, and {topology.name} has {hosts}. Ask for at "
            f"most {hosts}, or launch a larger network"
        )
    return (
        f"{ranks} ranks need as many free {places}, and {topology.name} has {free}: jobs run on "
        f"the other {hosts - free}, or no path leads there. Ask for fewer, or wait; `innet status` "
        "shows the jobs of a network"
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
        self._uses: dict[str, float] = {}
        self._peers: dict[str, list[str]] = {}
        self._hosts_at: dict[str, list[str]] = {}
        for host in free:
            self._hosts_at.setdefault(self._gate(host), []).append(host)
        for hosts in self._hosts_at.values():
            hosts.sort(key=self._use_of_host)  # stable: else in the order of the topology

    def beginnings(self) -> list[str]:
        """The racks to begin with: large and little used ones first."""
        racks = sorted(
            self._hosts_at, key=lambda rack: (-self._size(rack), self._use_of_host(rack))
        )
        return racks[:_MOST_BEGINNINGS]

    def choose_from(self, rack: str, ranks: int) -> _Candidate:
        """``rack`` and those nearest to it, as many as ``ranks`` need."""
        towards = self._walk(rack, ranks)
        chosen: list[str] = []
        used = {}
        for near in self._nearest(towards, ranks):
            chosen += self._hosts_at[near][: ranks - len(chosen)]
            used.update(dict.fromkeys(towards[near]))
        switches = tuple(node for node in used if node in self._switches)
        use = max((self._use_of_host(host) for host in chosen), default=0.0)
        use += max((self._use(node) for node in switches), default=0.0)
        left_over = (
            sum(len(self._hosts_at[node]) for node in used if node in self._hosts_at) - ranks
        )
        return _Candidate(tuple(chosen), switches, (len(switches), round(use, 2), left_over))

    def _nearest(self, towards: Mapping[str, Sequence[str]], ranks: int) -> Iterator[str]:
        """The nearest racks that have ``ranks`` hosts together; of equally near ones the largest,
        and at last the least used one with enough hosts, and no larger than it has to be."""
        racks = [node for node in towards if node in self._hosts_at]
        for _, group in groupby(racks, key=lambda rack: len(towards[rack])):
            waiting = sorted(group, key=lambda rack: (-self._size(rack), self._rounded_use(rack)))
            for done, rack in enumerate(waiting):
                if self._size(rack) >= ranks:
                    enough = (other for other in waiting[done:] if self._size(other) >= ranks)
                    yield min(enough, key=lambda r: (self._rounded_use(r), self._size(r)))
                    return
                ranks -= self._size(rack)
                yield rack

    def _size(self, rack: str) -> int:
        return len(self._hosts_at.get(rack, ()))

    def _gate(self, host: str) -> str:
        """The only neighbour of ``host``, or itself."""
        neighbours = list(self._topology.links_of[host])
        return neighbours[0] if len(neighbours) == 1 else host

    def _walk(self, rack: str, ranks: int) -> dict[str, tuple[str, ...]]:
        """The nodes on a shortest path from ``rack`` to each node but hosts, nearest first, up to
        the distance at which there are free hosts for ``ranks``."""
        paths: dict[str, tuple[str, ...]] = {rack: (rack,)}
        pending = [rack]
        distance = 0
        for node in pending:
            if len(paths[node]) > distance:
                distance += 1
                if sum(map(self._size, pending)) >= ranks:
                    break
            if node != rack and self._topology.role_of(node) != "switch":
                continue  # it forwards nothing
            for peer in self._peers_of(node):
                if peer not in paths:
                    paths[peer] = (*paths[node], peer)
                    pending.append(peer)
        return paths

    def _peers_of(self, node: str) -> list[str]:
        """The racks and switches that ``node`` is connected to, little used ones first."""
        if node not in self._peers:
            links = self._topology.links_of[node]
            peers = [peer for peer in links if peer in self._hosts_at or peer in self._switches]
            self._peers[node] = sorted(peers, key=self._use)
        return self._peers[node]

    def _use_of_host(self, host: str) -> float:
        return self._use(host) + self._load.late.get(host, 0.0)

    def _rounded_use(self, rack: str) -> float:
        return round(self._use_of_host(rack), 2)  # hosts with several links are their own racks

    def _use(self, node: str) -> float:
        """The use of a node's processor and of its fullest link by others."""
        if self._load.is_empty:
            return 0.0
        if node not in self._uses:
            shares = (
                max(
                    self._load.link_share(self._topology, node, peer),
                    self._load.link_share(self._topology, peer, node),
                )
                for peer in self._topology.links_of[node]
            )
            self._uses[node] = self._load.processor.get(node, 0.0) + max(shares, default=0.0)
        return self._uses[node]
