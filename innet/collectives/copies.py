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
    split_blocks,
)
from innet.collectives.group import Variants
from innet.collectives.operation import (
    Operation,
    Wanted,
    copied,
    describe,
    publishing_only,
    rooted,
)
from innet.errors import CollectiveError


def broadcast(variants: Variants, rank: int, array: Array, root: int) -> Operation[Array]:
    """Broadcast: the root publishes ``array``, everybody else fetches it into ``array``."""
    kind = f"broadcast.{copied_type(array)}"
    what = describe("broadcast", kind, array, root=root)
    kind = rooted(copied(kind, array.size), root)
    variant = variants.first
    if rank == root:
        return publishing_only(what, variant, kind, array, lambda: array)
    output = Output(array)
    return Operation(
        what=what,
        variant=variant,
        kind=kind,
        elements=array.size,
        block_bytes=array.nbytes,
        wants=(Wanted(variant.ranks[root], output.memory),),
        finish=output.finish,
        synchronising=False,
    )


def gather(
    variants: Variants, rank: int, size: int, array: Array, root: int, out: Array | None
) -> Operation[Array | None]:
    """Gather: everybody publishes; row r of the root's result is the array of rank r."""
    kind = f"gather.{copied_type(array)}"
    what = describe("gather", kind, array, root=root)
    kind = rooted(copied(kind, array.size), root)
    variant = variants.first
    if rank != root:
        return publishing_only(what, variant, kind, array, lambda: None)
    output = output_like(out, (size, *array.shape), array.dtype)
    rows = output.memory
    rows[rank] = array
    return Operation(
        what=what,
        variant=variant,
        kind=kind,
        elements=array.size,
        block_bytes=array.nbytes,
        wants=tuple(
            Wanted(variant.ranks[peer], rows[peer]) for peer in range(size) if peer != rank
        ),
        finish=output.finish,
        synchronising=False,
    )


def scatter(
    variants: Variants, rank: int, size: int, array: Array | None, root: int, out: Array | None
) -> Operation[Array]:
    """Scatter: the root publishes all blocks, each rank fetches its own.

    The root's ``array`` has ``size`` blocks along its first axis; rank r's result is block r. Ranks
    other than the root state by ``out`` what they expect.

    Raises:
        CollectiveError: the root gave no array, or another rank no ``out``.
    """
    variant = variants.first
    if rank != root:
        if out is None:
            raise CollectiveError(
                f"scatter from rank {root}: rank {rank} must pass out= with the shape "
                "and type of its block"
            )
        output = output_like(out, out.shape, out.dtype)
        kind = f"scatter.{copied_type(out)}"
        return Operation(
            what=describe("scatter", kind, out, root=root),
            variant=variant,
            kind=rooted(copied(kind, out.size * size), root),
            elements=out.size * size,
            block_bytes=out.nbytes,
            blocks=size,
            wants=(Wanted(variant.ranks[root], output.memory, block=rank),),
            finish=output.finish,
            synchronising=False,
        )
    if array is None:
        raise CollectiveError(f"scatter from rank {root}: the root must pass the array to scatter")
    kind = f"scatter.{copied_type(array)}"
    block_shape = split_blocks(array, size, "scatter")
    output = output_like(out, block_shape, array.dtype)
    published = as_input(array)
    output.memory[...] = published[root * block_shape[0] : (root + 1) * block_shape[0]]
    return Operation(
        what=describe("scatter", kind, output.memory, root=root),
        variant=variant,
        kind=rooted(copied(kind, array.size), root),
        elements=array.size,
        block_bytes=array.nbytes // size,
        blocks=size,
        publishes=published,
        finish=output.finish,
        synchronising=False,
    )


def allgather(
    variants: Variants, rank: int, size: int, array: Array, out: Array | None
) -> Operation[Array]:
    """Allgather: publish mine, fetch everybody's; row r of the result is the array of rank r."""
    kind = f"allgather.{copied_type(array)}"
    output = output_like(out, (size, *array.shape), array.dtype)
    rows = output.memory
    rows[rank] = array
    variant = variants.first
    return Operation(
        what=describe("allgather", kind, array),
        variant=variant,
        kind=copied(kind, array.size),
        elements=array.size,
        block_bytes=array.nbytes,
        publishes=as_input(array),
        wants=tuple(
            Wanted(variant.ranks[peer], rows[peer]) for peer in range(size) if peer != rank
        ),
        finish=output.finish,
    )


def alltoall(
    variants: Variants, rank: int, size: int, array: Array, out: Array | None
) -> Operation[Array]:
    """All-to-all: publish a block for everyone, fetch my block of everyone's.

    ``array`` has ``size`` blocks along its first axis; block r goes to rank r, and block r of the
    result came from rank r.
    """
    kind = f"alltoall.{copied_type(array)}"
    block_shape = split_blocks(array, size, "alltoall")
    published = as_input(array)
    if out is not None and out is array:
        published = array.copy()
    output = output_like(out, array.shape, array.dtype)
    blocks = output.memory.reshape(size, *block_shape)
    blocks[rank] = published.reshape(size, *block_shape)[rank]
    variant = variants.first
    return Operation(
        what=describe("alltoall", kind, array),
        variant=variant,
        kind=copied(kind, array.size),
        elements=array.size,
        block_bytes=array.nbytes // size,
        blocks=size,
        publishes=published,
        wants=tuple(
            Wanted(variant.ranks[peer], blocks[peer], block=rank)
            for peer in range(size)
            if peer != rank
        ),
        finish=output.finish,
    )
