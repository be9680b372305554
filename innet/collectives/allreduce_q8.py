"""Allreduce in 8 bits an element: publish mine in blocks with a scale, fetch the sum of blocks."""

from __future__ import annotations

import numpy as np

from innet._native import _core
from innet.collectives.arrays import Array, as_input, output_like, require_array
from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted, describe
from innet.errors import CollectiveError

KIND = "sum.q8"


def allreduce_q8(
    variants: Variants, array: Array, out: Array | None, lost: Array | None
) -> Operation[Array]:
    """The operation of one rank; the result has the shape and type of ``array``.

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
        what=describe("allreduce", KIND, array),
        variant=variant,
        kind=KIND,
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
