"""Gather: everybody publishes, the root fetches them all."""

from __future__ import annotations

from innet.collectives.arrays import Array, copied_type, output_like
from innet.collectives.group import Variants
from innet.collectives.operation import (
    Operation,
    Wanted,
    copied,
    describe,
    publishing_only,
    rooted,
)


def gather(
    variants: Variants, rank: int, size: int, array: Array, root: int, out: Array | None
) -> Operation[Array | None]:
    """The operation of one rank; row r of the root's result is the array of rank r."""
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
