"""Copies: broadcast, gather, scatter, allgather and all-to-all move tensors and add nothing.

Each function makes the operation of one rank.
"""

from __future__ import annotations

from innet.collectives.arrays import (
    Array,
    Output,
    as_input,
    copied_type,
    output_like,
    require_array,
    split_blocks,
)
from innet.collectives.group import Variants
from innet.collectives.operation import CallSpec, Operation, Wanted, describe, rooted
from innet.errors import CollectiveError


def broadcast(variants: Variants, array: Array, root: int) -> Operation[Array]:
    """Broadcast: the root publishes ``array``, all other ranks fetch it into ``array``."""
    call = _copying(variants, "broadcast", array, root=root)
    if variants.rank == root:
        return call.operation(lambda: array, publishes=as_input(array))
    output = Output(array)
    wanted = Wanted(call.variant.ranks[root], output.memory)
    return call.operation(output.finish, wants=(wanted,))


def gather(
    variants: Variants, array: Array, root: int, out: Array | None
) -> Operation[Array | None]:
    """Gather: all ranks publish; row r of the root's result is the array of rank r."""
    call = _copying(variants, "gather", array, root=root)
    if variants.rank != root:
        return call.operation(lambda: None, publishes=as_input(array))
    output = output_like(out, (variants.size, *array.shape), array.dtype)
    output.memory[root] = array
    return call.operation(output.finish, wants=_of_peers(variants, output.memory))


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
        wanted = Wanted(call.variant.ranks[root], output.memory, block=variants.rank)
        return call.operation(output.finish, wants=(wanted,))
    if array is None:
        raise CollectiveError(f"scatter from rank {root}: the root must pass the array to scatter")
    blocks = _in_blocks(array, size, "scatter")
    call = _copying(variants, "scatter", blocks[root], blocks=size, root=root)
    output = output_like(out, blocks.shape[1:], array.dtype)
    output.memory[...] = blocks[root]
    return call.operation(output.finish, publishes=blocks)


def allgather(variants: Variants, array: Array, out: Array | None) -> Operation[Array]:
    """Allgather: publish mine, fetch all others; row r of the result is the array of rank r."""
    call = _copying(variants, "allgather", array)
    output = output_like(out, (variants.size, *array.shape), array.dtype)
    output.memory[variants.rank] = array
    return call.operation(
        output.finish, publishes=as_input(array), wants=_of_peers(variants, output.memory)
    )


def alltoall(variants: Variants, array: Array, out: Array | None) -> Operation[Array]:
    """All-to-all: publish a block for each rank, fetch this rank's block of each.

    ``array`` has ``size`` blocks along its first axis; block r goes to rank r, and block r of the
    result came from rank r.
    """
    rank, size = variants.rank, variants.size
    require_array(array)
    published = array.copy() if out is not None and out is array else array
    blocks = _in_blocks(published, size, "alltoall")
    call = _copying(variants, "alltoall", blocks[rank], blocks=size, shown=array)
    output = output_like(out, array.shape, array.dtype)
    landing = output.memory.reshape(blocks.shape)
    landing[rank] = blocks[rank]
    return call.operation(
        output.finish,
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
) -> CallSpec:
    """The call of a copy whose tensor has ``blocks`` blocks like ``block``.

    ``shown`` is the array whose shape messages state, by default the block.
    """
    kind = f"{name}.{copied_type(block)}"
    elements = block.size * blocks
    return CallSpec(
        what=describe(name, kind, block if shown is None else shown, root=root),
        variant=variants.first,
        kind=rooted(f"{kind}.{elements}", root),  # no node compares the sizes; the name does
        elements=elements,
        block_bytes=block.nbytes,
        blocks=blocks,
        synchronising=root is None,
    )


def _of_peers(variants: Variants, rows: Array, block: int | None = None) -> tuple[Wanted, ...]:
    """What all other ranks published, or a block of each, for the rows of their numbers."""
    targets = variants.first.ranks
    return tuple(
        Wanted(targets[peer], rows[peer], block)
        for peer in range(variants.size)
        if peer != variants.rank
    )


def _in_blocks(array: Array, blocks: int, operation: str) -> Array:
    """The equal parts of ``array`` along its first axis, as rows."""
    shape = split_blocks(array, blocks, operation)
    return as_input(array).reshape(blocks, *shape)
