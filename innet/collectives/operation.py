"""What one collective publishes and fetches, without its sequence number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from innet._native import _core
from innet.collectives.arrays import Array
from innet.collectives.group import Variant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Segments of a named value to fetch, and the memory for them.

    ``block`` picks one block of the value; ``None`` takes all of them. Where segments may be
    shorter than full ones, ``sizes`` (uint32, one per segment) receives the number of bytes.
    """

    targets: _core.Targets
    into: Array
    block: int | None = None
    by_block: bool = False
    sizes: Array | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One collective of one rank.

    Attributes:
        what: for people, such as ``allreduce(sum.f32, shape (4096,))``.
        variant: the plan it follows.
        kind: the name component that says what is published, such as ``sum.f32``. It has every
            parameter that all ranks must agree on: a rank that is asked for another kind answers
            with what it called.
        elements: elements of the whole tensor; must be the same on every rank.
        block_bytes: bytes of one of ``blocks`` equal blocks of the tensor.
        publishes: the tensor this rank offers, or ``None``.
        segment_ends: where segments of unequal sizes end in it (uint64), or ``None``.
        wants: what it fetches.
        finish: makes the result once all is there.
        in_place: the fetch lands over the published tensor.
        synchronising: the end of it proves that every rank had started it.
        number: stands in its names in place of its sequence number, if given.
        granule_bytes: what must not be cut: a segment holds a whole number of these.
    """

    what: str
    variant: Variant
    kind: str
    elements: int
    block_bytes: int
    finish: Callable[[], T]
    blocks: int = 1
    publishes: Array | None = None
    segment_ends: Array | None = None
    wants: Sequence[Wanted] = field(default_factory=tuple)
    in_place: bool = False
    synchronising: bool = True
    number: int | None = None
    granule_bytes: int = 1

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.block_bytes * self.blocks

    def segment_bytes(self, room_bytes: int) -> int:
        """Bytes of a full segment where a packet has room for ``room_bytes``."""
        return room_bytes // self.granule_bytes * self.granule_bytes


@dataclass(frozen=True, slots=True)
class CallSpec:
    """What all ranks of one collective call state alike.

    Attributes:
        what: for people, such as ``allreduce(sum.f32, shape (4096,))``.
        variant, kind, elements, block_bytes, blocks, synchronising: as of :class:`Operation`.
    """

    what: str
    variant: Variant
    kind: str
    elements: int
    block_bytes: int
    blocks: int = 1
    synchronising: bool = True

    def operation(
        self,
        finish: Callable[[], T],
        *,
        publishes: Array | None = None,
        wants: Sequence[Wanted] = (),
        in_place: bool = False,
    ) -> Operation[T]:
        """The part of one rank; arguments as of :class:`Operation`."""
        return Operation(
            what=self.what,
            variant=self.variant,
            kind=self.kind,
            elements=self.elements,
            block_bytes=self.block_bytes,
            finish=finish,
            blocks=self.blocks,
            publishes=publishes,
            wants=wants,
            in_place=in_place,
            synchronising=self.synchronising,
        )


def rooted(kind: str, root: int | None) -> str:
    """The kind of a call with a root: ranks that name different roots ask for different tensors."""
    return kind if root is None else f"{kind}.root{root}"


def describe(name: str, kind: str, array: Array, **details: int | None) -> str:
    """``allreduce(sum.f32, shape (4096,))`` and the like, without details that are ``None``."""
    more = "".join(f", {key}={value}" for key, value in details.items() if value is not None)
    return f"{name}({kind}, shape {tuple(array.shape)}{more})"
