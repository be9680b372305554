"""A replay without packets and time: the placement, stores and paths of a real one.

Requests are served one after the other, and a block moves at once and as a whole. The model has no
overlapping requests, no windows, losses or deadlines. Hence a whole trace takes seconds;
``kv_trace.py`` compares a part of it with the packet simulator.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from innet.kv.pool.peers import Placement
from innet.kv.pool.summary import POPULAR, SUMMARY_S
from innet.lab.compare.measurement import BlockPlaces
from innet.lab.replay.plan import BALANCED, Assignment, ReplayPlan, requests_of
from innet.lab.replay.single_store import BlockStore
from innet.lab.traces import PromptRequest
from innet.topology import Switch, Topology
from innet.topology.routes import Routes

Pending = dict[str, set[str]]
"""By node, the neighbours that wait for the answer to an Interest."""


@dataclass(slots=True)
class _Held:
    """A block at a host.

    Attributes:
        since_s: when it came; summaries tell of it a little later.
        is_copy: another host has put it.
        asked: how often others have requested it here.
    """

    since_s: float
    is_copy: bool
    asked: int = 0

    @property
    def is_popular(self) -> bool:
        """See :mod:`innet.kv.pool.directory`."""
        return self.asked >= POPULAR and not self.is_copy


class BlockModel:
    """The stores of a cluster, and the blocks on its links.

    Attributes:
        link_blocks: blocks that each direction of a link has carried.
        by_switch: blocks that each switch has sent.
    """

    def __init__(self, topology: Topology, plan: ReplayPlan, hosts: Sequence[str]) -> None:
        """
        Args:
            topology: with the switches' memory, in bytes.
            plan: of the replay.
            hosts: of the workers.
        """
        self.link_blocks: Counter[tuple[str, str]] = Counter()
        self.by_switch: Counter[str] = Counter()
        self._plan = plan
        self._hosts = hosts
        self._workers = {host: BlockStore(plan.worker_blocks, plan.policy) for host in hosts}
        self._homes = {
            home: BlockStore(blocks, plan.policy) for home, blocks in plan.home_blocks.items()
        }
        if plan.shares_memory:
            shared = {
                host: BlockStore(plan.shared_blocks(host), plan.policy, lambda: self._now_s)
                for host in {*self._workers, *self._homes}
            }
            self._workers = {host: shared[host] for host in self._workers}
            self._homes = {home: shared[home] for home in self._homes}
        self._switches = {
            name: BlockStore(node.cache_bytes // plan.block_bytes, node.cache_policy)
            for name, node in topology.nodes.items()
            if isinstance(node, Switch)
        }
        weights = plan.home_weights
        self._placement = Placement(weights, replicas=plan.replicas) if weights else None
        self._notes: dict[bytes, str] = {}
        self._held: defaultdict[bytes, dict[str, _Held]] = defaultdict(dict)
        """By block and host, in designs with one store for each host."""
        self._now_s = 0.0
        self._local = self._given = self._computed = self._puts = 0
        routes = Routes(topology)
        self._next_hop = cache(routes.next_hop)
        self._distance = cache(routes.distance)
        self._homes_of = cache(self._place)
        self._neighbours = cache(self._by_distance)

    def replay(self, requests: Sequence[PromptRequest], assign: Assignment = "round-robin") -> None:
        """Serve all requests, one after the other."""
        turns = sorted(
            (number, host, request)
            for rank, host in enumerate(self._hosts)
            for number, request in requests_of(rank, len(self._hosts), requests, assign)
        )
        for _, host, request in turns:
            self._now_s = request.arrival_s
            self._serve(host, request.blocks)

    @property
    def counts(self) -> BlockPlaces:
        """The places at which blocks were found."""
        return BlockPlaces(
            local=self._local,
            switches=self.by_switch.total(),
            by_switch={switch: float(count) for switch, count in self.by_switch.items()},
            homes=self._given,
            computed=self._computed,
            late=0,
            puts=self._puts,
            lost_puts=0,
        )

    def _serve(self, host: str, blocks: Sequence[bytes]) -> None:
        found = 0
        for depth, block in enumerate(blocks):
            if not self._find(host, block, depth):
                break
            found += 1
        self._computed += len(blocks) - found
        for depth, block in list(enumerate(blocks))[found:]:
            self._put(host, block, depth)

    def _find(self, host: str, block: bytes, depth: int) -> bool:
        homes = self._homes_of(block)
        if self._workers[host].use(block) or (host in homes and self._homes[host].use(block)):
            self._local += 1
            return True
        for member in self._members_in_order(host, block, homes):
            if self._fetch(host, member, block, depth):
                self._keep(host, block, depth, is_copy=self._plan.shares_memory)
                return True
        return False

    def _members_in_order(self, host: str, block: bytes, homes: Sequence[str]) -> Sequence[str]:
        """The members to ask, as :class:`~innet.kv.pool.directory.HolderDirectory` orders them."""
        held = {
            member: each
            for member, each in self._held[block].items()
            if member in self._homes and member != host and each.since_s + SUMMARY_S <= self._now_s
        }
        if not held:
            return homes
        nearest = next(self._in_turn(host, block, held))
        others = [home for home in homes if home != host]
        if others and any(each.is_popular for each in held.values()):
            distance = min(self._distance(host, home) for home in others)
            if self._distance(host, nearest) >= distance:
                return (*homes, nearest)
        return (nearest, *homes)

    def _in_turn(self, host: str, block: bytes, held: dict[str, _Held]) -> Iterator[str]:
        number = zlib.crc32(block) >> 1
        for group in self._neighbours(host):
            first = number % len(group)
            yield from (member for member in group[first:] + group[:first] if member in held)

    def _by_distance(self, host: str) -> list[list[str]]:
        others = sorted(self._homes.keys() - {host}, key=lambda to: (self._distance(host, to), to))
        groups = groupby(others, key=lambda to: self._distance(host, to))
        return [list(group) for _, group in groups]

    def _keep(self, host: str, block: bytes, depth: int, *, is_copy: bool) -> bool:
        """Put a block into a host's own store; whether it stays."""
        is_new = block not in self._workers[host]
        gone = self._workers[host].put(block, depth, is_copy=is_copy)
        if self._plan.shares_memory:
            if is_new:
                self._held[block][host] = _Held(self._now_s, is_copy)
            for victim in gone:
                self._held[victim].pop(host, None)
        return block not in gone

    def _count_request(self, host: str, block: bytes) -> None:
        """Another host has loaded a block of this host's own store."""
        if host not in self._homes:
            self._workers[host].demote(block)  # only homes ask, and have it afterwards
        elif block in self._workers[host] and self._plan.shares_memory:
            self._held[block][host].asked += 1

    def _fetch(self, asker: str, home: str, block: bytes, depth: int) -> bool:
        """Fetch a block from a member, from a cache on the path, or through its home."""
        pending: Pending = {}
        at = self._ask(pending, asker, home, block)
        if at in self._switches:
            self.by_switch[at] += 1
            self._answer(pending, at, block)
            return True
        if asker != home and self._homes[home].use(block):
            self._given += 1
            self._count_request(home, block)
            self._answer(pending, home, block)
            return True
        source = self._notes.get(block) if home in self._homes_of(block) else None
        if source is None or source == asker or block not in self._workers[source]:
            return False
        self._given += 1
        self._answer(pending, self._ask(pending, home, source, block), block)
        self._workers[source].use(block)
        self._count_request(source, block)
        self._keep_at_home(home, block, depth)
        self._homes[home].use(block)  # a requester has caused the fetch
        return True

    def _put(self, host: str, block: bytes, depth: int) -> None:
        homes = self._homes_of(block)
        self._puts += len(homes)
        is_kept = not self._moves(host, homes) and self._keep(host, block, depth, is_copy=False)
        if is_kept and self._plan.shares_memory:
            self._notes[block] = host
            return
        for home in homes:
            if home != host and block not in self._homes[home]:
                pending: Pending = {}
                self._answer(pending, self._ask(pending, home, host, block), block)
            self._keep_at_home(home, block, depth)

    def _moves(self, host: str, homes: Sequence[str]) -> bool:
        """Whether the first home keeps a new block longer than the host that puts it."""
        if self._plan.design != BALANCED or not homes or host in homes:
            return False
        return self._homes[homes[0]].next_wait_s > self._workers[host].next_wait_s

    def _keep_at_home(self, home: str, block: bytes, depth: int) -> None:
        if self._plan.shares_memory:
            self._keep(home, block, self._own_depth(depth), is_copy=False)
        else:
            self._homes[home].put(block, self._own_depth(depth))

    def _ask(self, pending: Pending, asker: str, towards: str, block: bytes) -> str:
        """Send an Interest: records the waiting neighbours, and returns the node that answers."""
        node = asker
        while node != towards:
            if node in self._switches and self._switches[node].use(block):
                return node
            further = self._next_hop(node, towards)
            pending.setdefault(further, set()).add(node)
            node = further
        return node

    def _answer(self, pending: Pending, start: str, block: bytes) -> None:
        """Send the block to all waiting neighbours, a copy on each link."""
        arrivals = deque([(start, "")])
        while arrivals:
            node, came_from = arrivals.popleft()
            if node in self._switches and node != start:
                self._switches[node].put(block, 0)
            for waiting in sorted(pending.pop(node, set()) - {came_from}):
                self.link_blocks[node, waiting] += 1
                arrivals.append((waiting, node))

    def _own_depth(self, depth: int) -> int:
        return depth * self._plan.replicas // max(1, len(self._homes))

    def _place(self, block: bytes) -> tuple[str, ...]:
        return () if self._placement is None else self._placement.homes(block)


def busiest_link(blocks: Iterable[tuple[tuple[str, str], int]]) -> tuple[str, int]:
    """The link that carried the most blocks, in words, and their number.

    >>> busiest_link([(("h0", "s0"), 3), (("s0", "h1"), 5)])
    ('s0 → h1', 5)
    """
    (source, to), count = max(blocks, key=lambda one: one[1], default=(("", ""), 0))
    return (f"{source} → {to}" if source else "none"), count
