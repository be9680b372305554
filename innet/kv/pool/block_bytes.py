"""Bytes of blocks, in the forms that callers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from innet.errors import KVError
from innet.kv.pool.network import Contents

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    BytesLike: TypeAlias = ReadableBuffer | npt.NDArray[Any]
    """Bytes of a block, as a caller has them."""

_BYTES: Final = np.dtype(np.uint8)


def _are_bytes(value: object) -> TypeGuard[Contents]:
    return isinstance(value, np.ndarray) and value.dtype == _BYTES and value.ndim == 1


def readable(contents: BytesLike) -> Contents:
    """The bytes of a block, contiguous.

    Raises:
        KVError: they are none.
    """
    if _are_bytes(contents) and contents.size:
        return np.ascontiguousarray(contents)
    try:
        array = contents if isinstance(contents, np.ndarray) else np.asarray(memoryview(contents))
        found = np.ascontiguousarray(array).reshape(-1).view(_BYTES)
    except (TypeError, ValueError):
        raise KVError(
            f"a block is bytes or another object with a buffer, not {type(contents).__name__}; of "
            "a tensor, give tensor.cpu().view(torch.uint8).numpy()"
        ) from None
    if not found.size:
        raise KVError("a block has at least one byte; leave out empty ones")
    return found


def writable(into: WriteableBuffer | Contents) -> Contents:
    """Memory of the caller for a block, as bytes.

    Raises:
        KVError: it cannot be written to, or is in several pieces.
    """
    if _are_bytes(into) and into.flags.writeable and into.flags.c_contiguous:
        return into
    try:
        view = memoryview(into)  # type: ignore[arg-type]  # arrays have buffers
        if not view.readonly and view.c_contiguous:
            return np.frombuffer(view.cast("B"), _BYTES)
    except (TypeError, ValueError):
        pass
    raise KVError(
        "a block is loaded into contiguous memory that can be written to, such as a bytearray or "
        f"numpy.empty(size, numpy.uint8); got {type(into).__name__}"
    )
