"""Reduce-scatter: publish mine, fetch only my block of the sum."""

from __future__ import annotations

from innet.collectives.arrays import (
    Array,
    as_input,
    output_like,
    reduction_type,
    split_blocks,
)
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted, describe


def reduce_scatter(
    variants: Variants, rank: int, size: int, array: Array, op: str, out: Array | None
) -> Operation[Array]:
    """The operation of one rank.

    ``array`` has ``size`` blocks along its first axis; the result is the sum of everybody's block
    number ``rank``.
    """
    kind = f"{op}.{reduction_type(array, op)}"
    block_shape = split_blocks(array, size, "reduce_scatter")
    output = output_like(out, block_shape, array.dtype)
    variant = variants.for_size(array.nbytes)
    return Operation(
        what=describe("reduce_scatter", kind, array),
        variant=variant,
        kind=kind,
        elements=array.size,
        block_bytes=array.nbytes // size,
        blocks=size,
        publishes=as_input(array),
        wants=(Wanted(variant.block_roots[rank], output.memory, block=rank),),
        finish=output.finish,
    )
