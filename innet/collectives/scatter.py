"""Scatter: the root publishes all blocks, each rank fetches its own."""

from __future__ import annotations

from innet.collectives.arrays import Array, as_input, copied_type, output_like, split_blocks
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted, copied, describe, rooted
from innet.errors import CollectiveError


def scatter(
    variants: Variants, rank: int, size: int, array: Array | None, root: int, out: Array | None
) -> Operation[Array]:
    """The operation of one rank.

    The root's ``array`` has ``size`` blocks along its first axis; rank r's result is block r. Ranks
    other than the root say by ``out`` what they expect.

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
