"""Reduce: everybody publishes, the root fetches the sum."""

from __future__ import annotations

from innet.collectives.arrays import Array, as_input, output_like, reduction_type
from innet.collectives.group import Variants
from innet.collectives.operation import (
    Operation,
    Wanted,
    describe,
    publishing_only,
    rooted,
)


def reduce(
    variants: Variants, rank: int, array: Array, root: int, op: str, out: Array | None
) -> Operation[Array | None]:
    """The operation of one rank; the root's result is the sum, everybody else's ``None``."""
    kind = f"{op}.{reduction_type(array, op)}"
    variant = variants.for_size(array.nbytes)
    what = describe("reduce", kind, array, root=root)
    kind = rooted(kind, root)
    if rank != root:
        return publishing_only(what, variant, kind, array, lambda: None)
    output = output_like(out, array.shape, array.dtype)
    return Operation(
        what=what,
        variant=variant,
        kind=kind,
        elements=array.size,
        block_bytes=array.nbytes,
        publishes=as_input(array),
        wants=(Wanted(variant.roots, output.memory),),
        finish=output.finish,
        in_place=out is array and output.memory is array,
        synchronising=False,
    )
