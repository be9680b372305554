"""Reductions: publish mine, fetch the sum over all, or the block of it that is mine.

Each function makes the operation of one rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from innet._native import _core
from innet.collectives.arrays import (
    Array,
    as_input,
    output_like,
    reduction_type,
    require_array,
    split_blocks,
)
from innet.collectives.group import Variants
from innet.collectives.operation import CallSpec, Operation, Wanted, describe, rooted
from innet.errors import CollectiveError

_Q8_KIND = "sum.q8"


def allreduce(variants: Variants, array: Array, op: str, out: Array | None) -> Operation[Array]:
    """Allreduce: publish mine, fetch the sum, of the shape and type of ``array``."""
    call = _reducing(variants, "allreduce", array, op)
    return _landing_in(call, array, out)


def reduce(
    variants: Variants, array: Array, root: int, op: str, out: Array | None
) -> Operation[Array | None]:
    """Reduce: all ranks publish, the root fetches the sum; the others get ``None``."""
    call = _reducing(variants, "reduce", array, op, root=root)
    if variants.rank != root:
        return call.operation(lambda: None, publishes=as_input(array))
    return _landing_in(call, array, out)


def reduce_scatter(
    variants: Variants, array: Array, op: str, out: Array | None
) -> Operation[Array]:
    """Reduce-scatter: publish mine, fetch my block of the sum.

    ``array`` has ``size`` blocks along its first axis; the result is the sum of all ranks' block
    number ``rank``.
    """
    rank, size = variants.rank, variants.size
    call = _reducing(variants, "reduce_scatter", array, op, blocks=size)
    output = output_like(out, split_blocks(array, size, "reduce_scatter"), array.dtype)
    wanted = Wanted(call.variant.block_roots[rank], output.memory, block=rank)
    return call.operation(output.finish, publishes=as_input(array), wants=(wanted,))


def _reducing(
    variants: Variants,
    name: str,
    array: Array,
    op: str,
    *,
    blocks: int = 1,
    root: int | None = None,
) -> CallSpec:
    """The call of a reduction of ``array``, of ``blocks`` equal blocks."""
    kind = f"{op}.{reduction_type(array, op)}"
    return CallSpec(
        what=describe(name, kind, array, root=root),
        variant=variants.for_size(array.nbytes),
        kind=rooted(kind, root),
        elements=array.size,
        block_bytes=array.nbytes // blocks,
        blocks=blocks,
        synchronising=root is None,
    )


def _landing_in(call: CallSpec, array: Array, out: Array | None) -> Operation[Any]:
    """Publish ``array`` and fetch the whole sum into ``out``."""
    output = output_like(out, array.shape, array.dtype)
    return call.operation(
        output.finish,
        publishes=as_input(array),
        wants=(Wanted(call.variant.roots, output.memory),),
        # A result beside the caller's array means that the contribution is not overwritten.
        in_place=out is array and output.memory is array,
    )


def barrier(variants: Variants) -> Operation[None]:
    """Barrier: a sum of one element, which ends when every rank has started it."""
    contribution = np.zeros(1, np.uint8)
    variant = variants.for_size(contribution.nbytes)
    return Operation(
        what="barrier()",
        variant=variant,
        kind="sum.u8",
        elements=1,
        block_bytes=1,
        publishes=contribution,
        wants=(Wanted(variant.roots, np.zeros(1, np.uint8)),),
        finish=lambda: None,
    )


def allreduce_q8(
    variants: Variants, array: Array, out: Array | None, lost: Array | None
) -> Operation[Array]:
    """Allreduce in 8 bits an element: the ranks add blocks with a scale.

    Raises:
        CollectiveError: an array is not of float32, or ``lost`` does not fit.
    """
    require_array(array)
    if array.dtype != np.float32:
        raise CollectiveError(
            f"arrays of {array.dtype} cannot be sent in 8 bits an element; convert with "
            "array.astype(numpy.float32)"
        )
    if lost is not None:
        _check_lost(lost, array)
    output = output_like(out, array.shape, array.dtype)
    blocks = -(-array.size // _core.Q8_BLOCK_ELEMENTS)
    encoded = np.empty(blocks * _core.Q8_BLOCK_BYTES, np.uint8)
    _core.q8_encode(
        as_input(array).reshape(-1), encoded, None if lost is None else lost.reshape(-1)
    )
    variant = variants.for_size(encoded.nbytes)

    def finish() -> Array:
        _core.q8_decode(encoded, output.memory.reshape(-1))
        return output.finish()

    return Operation(
        what=describe("allreduce", _Q8_KIND, array),
        variant=variant,
        kind=_Q8_KIND,
        elements=array.size,
        block_bytes=encoded.nbytes,
        publishes=encoded,
        wants=(Wanted(variant.roots, encoded),),
        finish=finish,
        in_place=True,
        granule_bytes=_core.Q8_BLOCK_BYTES,
    )


def _check_lost(lost: Array, array: Array) -> None:
    require_array(lost)
    fits = lost.dtype == np.float32 and lost.size == array.size
    if not (fits and lost.flags.c_contiguous and lost.flags.writeable):
        raise CollectiveError(
            f"lost= must be a contiguous, writable float32 array of {array.size} elements; it has "
            f"shape {lost.shape} and type {lost.dtype}"
        )
