"""Allgather: publish mine, fetch everybody's."""

from __future__ import annotations

from innet.collectives.arrays import Array, as_input, copied_type, output_like
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted, copied, describe


def allgather(
    variants: Variants, rank: int, size: int, array: Array, out: Array | None
) -> Operation[Array]:
    """The operation of one rank; row r of the result is the array of rank r."""
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
