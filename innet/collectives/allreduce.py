"""Allreduce: publish mine, fetch the sum over all."""

from __future__ import annotations

from innet.collectives.arrays import Array, as_input, output_like, reduction_type
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted, describe


def allreduce(
    variants: Variants, array: Array, op: str, out: Array | None, what: str | None = None
) -> Operation[Array]:
    """The operation of one rank; the result has the shape and type of ``array``."""
    kind = f"{op}.{reduction_type(array, op)}"
    output = output_like(out, array.shape, array.dtype)
    # A result beside the caller's array means that the contribution is not overwritten.
    in_place = out is array and output.memory is array
    variant = variants.for_size(array.nbytes)
    return Operation(
        what=what or describe("allreduce", kind, array),
        variant=variant,
        kind=kind,
        elements=array.size,
        block_bytes=array.nbytes,
        publishes=as_input(array),
        wants=(Wanted(variant.roots, output.memory),),
        finish=output.finish,
        in_place=in_place,
    )
