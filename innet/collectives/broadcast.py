"""Broadcast: the root publishes, everybody else fetches it."""

from __future__ import annotations

from innet.collectives.arrays import Array, Output, copied_type
from innet.collectives.group import Variants
from innet.collectives.operation import (
    Operation,
    Wanted,
    copied,
    describe,
    publishing_only,
    rooted,
)


def broadcast(variants: Variants, rank: int, array: Array, root: int) -> Operation[Array]:
    """The operation of one rank; ``array`` is read at the root and filled everywhere else."""
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
