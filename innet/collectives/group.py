"""The names of a group's values, and the nodes that serve them, made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, overload
from weakref import WeakValueDictionary

from innet._native import _core
from innet.plans.expression import Interval
from innet.plans.plan import Placed
from innet.security.keys import SHARED_KEY_BYTES, node_certificate_name
from innet.settings import Signature
from innet.topology.names import MAX_NAME_CHARACTERS
from innet.worker.membership import Membership

if TYPE_CHECKING:
    from innet.plans import Plan, PlanChooser

T = TypeVar("T")

_SIGNATURE_BYTES: dict[Signature, int] = {
    "gmac": 28, "hmac": 32, "digest": 32, "ed25519": 64, "none": 0
}  # fmt: skip
_MAX_KIND = "allgather.f8e4m3fn.4294967296.root1023"
_HEADER_BYTES = 4
"""Type and length of a TLV element that is as long as a packet."""
_META_INFO_BYTES = 2 + 4 + 8 + 10 + 2 + _core.MAX_EARLIER_CALLS + 6
"""MetaInfo with FreshnessPeriod, FinalBlockId, TensorElements, EarlierCalls, SegmentsReceived."""
_NUMBERS_BYTES = 2 * (2 + 4)
"""The components of the sequence number and the segment."""
_LINK_BYTES = 2 * _HEADER_BYTES + 5
"""LpPacket, Fragment and a CongestionMark."""


def overhead_bytes(prefixes: Sequence[str], ranks: int, signature: Signature) -> int:
    """Bytes beside a segment in the longest packet of a group, without IP and UDP headers.

    Args:
        prefixes: of the group's names.
        ranks: of the group.
        signature: of its segments.
    """
    prefix = max(prefixes, key=len)
    _, job, *rest = prefix.split("/")
    if signature == "ed25519":  # of any node on the way
        key = node_certificate_name("n" * MAX_NAME_CHARACTERS, job)
    elif signature in SHARED_KEY_BYTES:
        key = f"/{job}/KEY/{'/'.join(rest).partition('.')[0]}/v=999"
    else:
        key = ""
    name = f"{prefix}/{ranks - 1}-{ranks - 1}/{_MAX_KIND}"
    name_bytes = len(_core.Name(name).value()) + _NUMBERS_BYTES
    locator_bytes = 4 + len(_core.Name(key).value()) if key else 0
    return (
        _LINK_BYTES
        + _HEADER_BYTES  # Data
        + (2 if name_bytes < 253 else _HEADER_BYTES)
        + name_bytes
        + _META_INFO_BYTES
        + _HEADER_BYTES  # Content
        + 5  # SignatureInfo with its type
        + locator_bytes
        + 2
        + _SIGNATURE_BYTES[signature]
    )


class LazyList(Sequence[T]):
    """A sequence of ``size`` elements; ``make(index)`` makes each of them once, when needed."""

    def __init__(self, size: int, make: Callable[[int], T]) -> None:
        self._indexes = range(size)
        self._make = make
        self._made: dict[int, T] = {}

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[number] for number in self._indexes[index]]
        number = self._indexes[index]
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]

    def __len__(self) -> int:
        return len(self._indexes)


class AtFirstUse(Generic[T]):
    """A delegate that is made when it is first used. Thread-safe.

    Attributes:
        made: the delegate, once it is.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.made: T | None = None

    def __call__(self) -> T:
        if self.made is None:
            with self._lock:
                if self.made is None:
                    self.made = self._make()
        return self.made


class Variant:
    """One plan of a group, with the names of its values ready for use.

    Attributes:
        prefix: name prefix of the plan's rules, such as ``/j1/g0.inc``.
        plan: the plan; what it calls a rank is a position.
        nodes: the node of each rank of the group.
        node: this rank's.
        own: name prefix of this rank's contributions.
        roots: the names and nodes of a reduction over all ranks, by shard.
        block_roots: those of one rank's block of a reduction over all ranks, by rank:
            the root of the shard that ends nearest to it.
        ranks: those of one rank's contribution, by rank.
        goes_ahead: this rank's contribution goes to a switch before it is requested.
    """

    def __init__(self, prefix: str, plan: Plan, nodes: Sequence[str], rank: int) -> None:
        self.prefix = prefix
        self.nodes = tuple(nodes)
        self.node = nodes[rank]
        self.own = _core.Name(f"{prefix}/{plan.position_of(nodes[rank])}")
        # In a large group, most pairs of ranks exchange no message.
        self.ranks: Sequence[_core.Targets] = LazyList(len(nodes), self._rank)
        self.place(plan)

    def place(self, plan: Plan) -> None:
        """Fetch the plan's sums from their new places; operations under way go on."""
        self.plan = plan
        self._sums_ahead: tuple[tuple[int, _core.Targets], ...] | None = None
        own = Placed(Interval.single(plan.position_of(self.node)), self.node)
        self.goes_ahead = bool(plan.ahead_to(own))
        self.block_roots: Sequence[_core.Targets] = LazyList(len(self.nodes), self._block_root)
        # Last: calls of other threads that find them find the rest of the plan as well.
        self.roots = _targets(self.prefix, plan.roots)

    @property
    def sums_ahead(self) -> tuple[tuple[int, _core.Targets], ...]:
        """The sums that this rank's node begins without a request, with their shards, in order."""
        if self._sums_ahead is None:
            self._sums_ahead = tuple(
                (ahead.shard, _targets(self.prefix, (Placed(ahead.interval, self.node),)))
                for ahead in self.plan.sums_ahead(self.node)
            )
        return self._sums_ahead

    def _rank(self, rank: int) -> _core.Targets:
        node = self.nodes[rank]
        return _core.Targets(
            [(f"{self.prefix}/{self.plan.position_of(node)}", f"/n/{node}", False)]
        )

    def _block_root(self, rank: int) -> _core.Targets:
        position = self.plan.position_of(self.nodes[rank])
        return _targets(self.prefix, (self.plan.root_for(position),))


class Variants:
    """The plans of a group, and the choice among them by size.

    Attributes:
        rank: of this process in the group.
        size: number of ranks.
        all: every plan.
    """

    def __init__(self, membership: Membership, chooser: PlanChooser | None) -> None:
        self.rank = membership.rank
        self.size = membership.size
        self.all = [
            Variant(prefix, plan, membership.nodes, membership.rank)
            for prefix, plan in membership.plans.items()
        ]
        self._chooser = chooser
        self._by_algorithm = {variant.plan.algorithm: variant for variant in self.all}
        self._by_size: dict[int, Variant] = {}
        membership.on_placed = self.place
        self.place(membership.plans)  # sums may have moved before

    def place(self, plans: Mapping[str, Plan]) -> None:
        """Fetch the sums from where they are made now; plans by name prefix."""
        for variant in self.all:
            variant.place(plans[variant.prefix])

    @property
    def first(self) -> Variant:
        """The plan for copies and messages, which all plans serve alike."""
        return self.all[0]

    def for_size(self, size_bytes: int) -> Variant:
        """The plan for a reduction of ``size_bytes`` per rank: the same on every rank."""
        if self._chooser is None:
            return self.first
        variant = self._by_size.get(size_bytes)
        if variant is None:
            chosen = self._chooser.choose(size_bytes).plan.algorithm
            variant = self._by_size[size_bytes] = self._by_algorithm[chosen]
        return variant

    def explain(self, size_bytes: int) -> str:
        """Why a reduction of this size uses its plan."""
        if self._chooser is None:
            return self.first.plan.why
        return self._chooser.choose(size_bytes).why


_shared: WeakValueDictionary[tuple[str, tuple[Placed, ...]], _core.Targets] = WeakValueDictionary()


def _targets(prefix: str, roots: tuple[Placed, ...]) -> _core.Targets:
    """Targets that all ranks of a group in one process share, as in a simulation."""
    targets = _shared.get((prefix, roots))
    if targets is None:
        targets = _core.Targets([_root(prefix, root) for root in roots])
        _shared[prefix, roots] = targets
    return targets


def _root(prefix: str, root: Placed) -> tuple[str, str, bool]:
    return f"{prefix}/{root.interval}", f"/n/{root.node}", not root.interval.is_single
