"""Operations: the names and memory that each collective publishes and fetches.

Each function makes the operation of one rank. A reduction publishes this rank's tensor, and fetches
the sum over all or its block of that; a copy moves tensors and adds nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from innet._native import _core
from innet.collectives.arrays import (
    Array,
    Output,
    as_input,
    copied_type,
    is_same_memory,
    output_like,
    reduction_type,
    require_array,
    shown_type,
    split_blocks,
)
from innet.collectives.group import Variant, Variants
from innet.errors import CollectiveError
from innet.plans import SegmentRoom

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
        noted: what a later synchronising call compares of this one, where the ranks that wait for
            others may not notice a difference.
        number: stands in its names in place of its sequence number, if given.
        granule_bytes: what must not be cut: a segment holds a whole number of these.
        fixed_segments: its segments have the size of a packet, however many there are.
        begins_ahead: every rank contributes full segments and fetches all of the sum, so each may
            begin what its node adds for others, and send ahead what a switch adds.
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
    noted: str = ""
    number: int | None = None
    granule_bytes: int = 1
    fixed_segments: bool = False
    begins_ahead: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.block_bytes * self.blocks

    def segment_bytes(self, room: SegmentRoom) -> int:
        """Bytes of a full segment, the same on every rank."""
        shards = len(self.variant.plan.roots)
        room_bytes = room.packet_bytes if self.fixed_segments else room.of(self.size_bytes, shards)
        return room_bytes // self.granule_bytes * self.granule_bytes


_Call = functools.partial[Operation[Any]]
"""The operation of a call without the part of one rank: what all ranks state alike."""


def rooted(kind: str, root: int | None) -> str:
    """The kind of a call with a root: ranks that name different roots request different tensors."""
    return kind if root is None else f"{kind}.root{root}"


def _noted(name: str, root: int | None) -> str:
    return "" if root is None else f"{name}(root={root})"


def describe(name: str, kind: str, array: Array, **details: int | None) -> str:
    """``allreduce(sum.f32, shape (4096,))`` and the like, without details that are ``None``."""
    more = "".join(f", {key}={value}" for key, value in details.items() if value is not None)
    return f"{name}({kind}, shape {tuple(array.shape)}{more})"


_Q8_KIND = "sum.q8"


def allreduce(variants: Variants, array: Array, op: str, out: Array | None) -> Operation[Array]:
    """Allreduce: publish mine, fetch the sum, of the shape and type of ``array``."""
    call = _reducing(variants, "allreduce", array, op)
    return _landing_in(variants, call, array, out)


def reduce(
    variants: Variants, array: Array, root: int, op: str, out: Array | None
) -> Operation[Array | None]:
    """Reduce: all ranks publish, the root fetches the sum; the others get ``None``."""
    call = _reducing(variants, "reduce", array, op, root=root)
    if variants.rank != root:
        return call(finish=lambda: None, publishes=as_input(array))
    return _landing_in(variants, call, array, out)


def reduce_scatter(
    variants: Variants, array: Array, op: str, out: Array | None
) -> Operation[Array]:
    """Reduce-scatter: publish mine, fetch my block of the sum.

    ``array`` has ``size`` blocks along its first axis; the result is the sum of all ranks' block
    number ``rank``.
    """
    rank, size = variants.rank, variants.size
    call = _reducing(variants, "reduce_scatter", array, op, blocks=size)
    output = output_like(out, split_blocks(array, size, "reduce_scatter"), array.dtype)
    published = as_input(array)
    output.keep_apart_from(published)
    wanted = Wanted(variants.for_size(array.nbytes).block_roots[rank], output.memory, block=rank)
    return call(finish=output.finish, publishes=published, wants=(wanted,))


def _reducing(
    variants: Variants,
    name: str,
    array: Array,
    op: str,
    *,
    blocks: int = 1,
    root: int | None = None,
) -> _Call:
    """The call of a reduction of ``array``, of ``blocks`` equal blocks."""
    kind = f"{op}.{reduction_type(array, op)}"
    return functools.partial(
        Operation,
        what=describe(name, kind, array, root=root),
        variant=variants.for_size(array.nbytes),
        kind=rooted(kind, root),
        elements=array.size,
        block_bytes=array.nbytes // blocks,
        blocks=blocks,
        synchronising=root is None,
        noted=_noted(name, root),
    )


def _landing_in(variants: Variants, call: _Call, array: Array, out: Array | None) -> Operation[Any]:
    """Publish ``array`` and fetch the whole sum into ``out``."""
    output = output_like(out, array.shape, array.dtype)
    published = as_input(array)
    # Also by another view of the same memory. A segment then overwrites itself, and no other one.
    in_place = out is not None and is_same_memory(output.memory, published)
    if out is not None and not in_place:
        output.keep_apart_from(published)
    return call(
        finish=output.finish,
        publishes=published,
        wants=(Wanted(variants.for_size(array.nbytes).roots, output.memory),),
        in_place=in_place,
        begins_ahead=call.keywords["synchronising"],
    )


def barrier(variants: Variants) -> Operation[None]:
    """Barrier: a sum of one element, which ends when every rank has started it."""
    contribution = np.zeros(1, np.uint8)
    variant = variants.for_size(contribution.nbytes)
    return Operation(
        what="barrier()",
        variant=variant,
        kind="sum.u8",
        elements=1,
        block_bytes=1,
        publishes=contribution,
        wants=(Wanted(variant.roots, np.zeros(1, np.uint8)),),
        finish=lambda: None,
        begins_ahead=True,
    )


def allreduce_q8(
    variants: Variants, array: Array, out: Array | None, lost: Array | None
) -> Operation[Array]:
    """Allreduce in 8 bits an element: the ranks add blocks with a scale.

    Raises:
        CollectiveError: an array is not of float32, or ``lost`` does not fit.
    """
    require_array(array)
    if array.dtype != np.float32:
        raise CollectiveError(
            f"arrays of {array.dtype} cannot be sent in 8 bits an element; convert with "
            "array.astype(numpy.float32)"
        )
    if lost is not None:
        _check_lost(lost, array)
    output = output_like(out, array.shape, array.dtype)
    blocks = -(-array.size // _core.Q8_BLOCK_ELEMENTS)
    encoded = np.empty(blocks * _core.Q8_BLOCK_BYTES, np.uint8)
    _core.q8_encode(
        as_input(array).reshape(-1), encoded, None if lost is None else lost.reshape(-1)
    )
    variant = variants.for_size(encoded.nbytes)

    def finish() -> Array:
        _core.q8_decode(encoded, output.memory.reshape(-1))
        return output.finish()

    return Operation(
        what=describe("allreduce", _Q8_KIND, array),
        variant=variant,
        kind=_Q8_KIND,
        elements=array.size,
        block_bytes=encoded.nbytes,
        publishes=encoded,
        wants=(Wanted(variant.roots, encoded),),
        finish=finish,
        in_place=True,
        granule_bytes=_core.Q8_BLOCK_BYTES,
        begins_ahead=True,
    )


def _check_lost(lost: Array, array: Array) -> None:
    require_array(lost)
    fits = lost.dtype == np.float32 and lost.size == array.size
    if not (fits and lost.flags.c_contiguous and lost.flags.writeable):
        raise CollectiveError(
            f"lost= must be a contiguous, writable float32 array of {array.size} elements; it has "
            f"shape {lost.shape} and type {lost.dtype}"
        )


def broadcast(variants: Variants, array: Array, root: int) -> Operation[Array]:
    """Broadcast: the root publishes ``array``, all other ranks fetch it into ``array``."""
    call = _copying(variants, "broadcast", array, root=root)
    if variants.rank == root:
        return call(finish=lambda: array, publishes=as_input(array))
    output = Output(array)
    wanted = Wanted(variants.first.ranks[root], output.memory)
    return call(finish=output.finish, wants=(wanted,))


def gather(
    variants: Variants, array: Array, root: int, out: Array | None
) -> Operation[Array | None]:
    """Gather: all ranks publish; row r of the root's result is the array of rank r."""
    call = _copying(variants, "gather", array, root=root)
    if variants.rank != root:
        return call(finish=lambda: None, publishes=as_input(array))
    output = output_like(out, (variants.size, *array.shape), array.dtype)
    output.memory[root] = array
    return call(finish=output.finish, wants=_of_peers(variants, output.memory))


def scatter(
    variants: Variants, array: Array | None, root: int, out: Array | None
) -> Operation[Array]:
    """Scatter: the root publishes all blocks, each rank fetches its own.

    The root's ``array`` has ``size`` blocks along its first axis; rank r's result is block r. Ranks
    other than the root state by ``out`` what they expect.

    Raises:
        CollectiveError: the root gave no array, or another rank no ``out``.
    """
    size = variants.size
    if variants.rank != root:
        if out is None:
            raise CollectiveError(
                f"scatter from rank {root}: rank {variants.rank} must pass out= with the shape "
                "and type of its block"
            )
        call = _copying(variants, "scatter", out, blocks=size, root=root)
        output = Output(out)
        wanted = Wanted(variants.first.ranks[root], output.memory, block=variants.rank)
        return call(finish=output.finish, wants=(wanted,))
    if array is None:
        raise CollectiveError(f"scatter from rank {root}: the root must pass the array to scatter")
    blocks = _in_blocks(array, size, "scatter")
    call = _copying(variants, "scatter", blocks[root], blocks=size, root=root)
    output = output_like(out, blocks.shape[1:], array.dtype)
    output.keep_apart_from(blocks)
    output.memory[...] = blocks[root]
    return call(finish=output.finish, publishes=blocks)


def allgather(variants: Variants, array: Array, out: Array | None) -> Operation[Array]:
    """Allgather: publish mine, fetch all others; row r of the result is the array of rank r."""
    call = _copying(variants, "allgather", array)
    output = output_like(out, (variants.size, *array.shape), array.dtype)
    published = as_input(array)
    # Its own row is not overwritten: the usual way to gather in place.
    if not is_same_memory(output.memory[variants.rank, ...], published):
        output.keep_apart_from(published)
    output.memory[variants.rank] = published
    return call(finish=output.finish, publishes=published, wants=_of_peers(variants, output.memory))


def alltoall(variants: Variants, array: Array, out: Array | None) -> Operation[Array]:
    """All-to-all: publish a block for each rank, fetch this rank's block of each.

    ``array`` has ``size`` blocks along its first axis; block r goes to rank r, and block r of the
    result came from rank r.
    """
    rank, size = variants.rank, variants.size
    require_array(array)
    blocks = _in_blocks(array, size, "alltoall")
    call = _copying(variants, "alltoall", blocks[rank], blocks=size, shown=array)
    output = output_like(out, array.shape, array.dtype)
    output.keep_apart_from(blocks)
    landing = output.memory.reshape(blocks.shape)
    landing[rank] = blocks[rank]
    return call(
        finish=output.finish,
        publishes=blocks,
        wants=_of_peers(variants, landing, block=rank),
    )


def _copying(
    variants: Variants,
    name: str,
    block: Array,
    *,
    blocks: int = 1,
    root: int | None = None,
    shown: Array | None = None,
) -> _Call:
    """The call of a copy whose tensor has ``blocks`` blocks like ``block``.

    ``shown`` is the array whose shape messages state, by default the block.
    """
    kind = f"{name}.{copied_type(block)}"
    shown_kind = f"{name}.{shown_type(block.dtype)}"
    elements = block.size * blocks
    return functools.partial(
        Operation,
        what=describe(name, shown_kind, block if shown is None else shown, root=root),
        variant=variants.first,
        kind=rooted(f"{kind}.{elements}", root),  # no node compares the sizes; the name does
        elements=elements,
        block_bytes=block.nbytes,
        blocks=blocks,
        synchronising=root is None,
        noted=_noted(name, root),
    )


def _of_peers(variants: Variants, rows: Array, block: int | None = None) -> tuple[Wanted, ...]:
    """The contributions of all other ranks, or a block of each; rank r's goes into row r.

    ``rows[peer, ...]`` is a view whatever the shape; ``rows[peer]`` of one axis is a copied scalar.
    """
    targets = variants.first.ranks
    return tuple(
        Wanted(targets[peer], rows[peer, ...], block)
        for peer in range(variants.size)
        if peer != variants.rank
    )


def _in_blocks(array: Array, blocks: int, operation: str) -> Array:
    """The equal parts of ``array`` along its first axis, as rows."""
    shape = split_blocks(array, blocks, operation)
    return as_input(array).reshape(blocks, *shape)
