"""All-to-all: publish a block for everyone, fetch my block of everyone's."""

from __future__ import annotations

from innet.collectives.arrays import Array, as_input, copied_type, output_like, split_blocks
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted, copied, describe


def alltoall(
    variants: Variants, rank: int, size: int, array: Array, out: Array | None
) -> Operation[Array]:
    """The operation of one rank.

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
