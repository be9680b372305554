"""Tensors as NumPy arrays over the same memory: nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy.typing as npt
import torch

from innet.collectives.arrays import Array
from innet.errors import CollectiveError

_REDUCIBLE = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
)

# Types that torch does not hand to NumPy: seen as integers of their size, then as NumPy's own.
_SEEN_AS_BITS: dict[torch.dtype, tuple[torch.dtype, npt.DTypeLike]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}


def as_array(tensor: torch.Tensor) -> Array:
    """The memory of ``tensor`` as an array of the same shape, strides and type.

    Raises:
        CollectiveError: the tensor is not in the processor's memory, is sparse, or is of a type
            that NumPy cannot see.
    """
    if tensor.device.type != "cpu":
        raise CollectiveError(
            f"a tensor is on {tensor.device}, the innet backend works on the CPU's memory; "
            "pass tensor.cpu() and copy the result back"
        )
    if tensor.layout != torch.strided:
        raise CollectiveError(
            f"a tensor has the layout {tensor.layout}; pass tensor.to_dense(), or make the module "
            "with sparse=False"
        )
    plain = tensor.detach()
    bits = _SEEN_AS_BITS.get(tensor.dtype)
    try:
        if bits is None:
            return plain.numpy()
        carrier, seen_as = bits
        array: npt.NDArray[Any] = plain.view(carrier).numpy().view(seen_as)
        return array
    except (RuntimeError, TypeError) as error:
        raise CollectiveError(
            f"a tensor of {tensor.dtype} cannot be sent: {error}. Send its bits as "
            "tensor.contiguous().view(torch.uint8)."
        ) from error


def as_reducible_array(tensor: torch.Tensor) -> Array:
    """:func:`as_array` for a type that can be added.

    Raises:
        CollectiveError: as :func:`as_array`, or the type cannot be reduced.
    """
    if tensor.dtype not in _REDUCIBLE:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _REDUCIBLE)
        raise CollectiveError(
            f"tensors of {tensor.dtype} cannot be reduced; types: {known}. Convert with "
            "tensor.to(torch.int32) or the like, and back."
        )
    return as_array(tensor)


def only(tensors: Sequence[torch.Tensor], operation: str) -> torch.Tensor:
    """The single tensor of a list: PyTorch's interface has lists for several devices at once.

    Raises:
        CollectiveError: there are none or several.
    """
    if len(tensors) != 1:
        raise CollectiveError(
            f"{operation} got {len(tensors)} tensors at once, the innet backend takes one; call "
            "it for each, or concatenate them"
        )
    return tensors[0]


def stacked(tensors: Sequence[torch.Tensor], size: int, operation: str) -> torch.Tensor:
    """One tensor of shape ``(size, *shape)`` with a copy of each of ``size`` equal tensors.

    Raises:
        CollectiveError: there are more or fewer, or their shapes or types differ.
    """
    require_alike(tensors, size, operation)
    return torch.stack([tensor.detach() for tensor in tensors])


def require_alike(tensors: Sequence[torch.Tensor], size: int, operation: str) -> None:
    """One tensor for each rank, all of one shape and type.

    Raises:
        CollectiveError: there are more or fewer, or their shapes or types differ.
    """
    if len(tensors) != size:
        raise CollectiveError(
            f"{operation} over {size} ranks takes a list of {size} tensors, one for each rank; "
            f"got {len(tensors)}"
        )
    kinds = {(tuple(tensor.shape), tensor.dtype) for tensor in tensors}
    if len(kinds) > 1:
        raise CollectiveError(
            f"{operation} takes tensors of one shape and type for all ranks; got "
            f"{', '.join(sorted(f'{shape} {dtype}' for shape, dtype in kinds))}. Pad them to the "
            "largest."
        )


def rows_of(tensor: torch.Tensor, like: torch.Tensor, size: int, operation: str) -> torch.Tensor:
    """``tensor``, which holds ``size`` times what ``like`` holds, as ``size`` rows of its shape.

    Raises:
        CollectiveError: it holds another number of elements, another type, or is not contiguous.
    """
    if tensor.numel() != size * like.numel() or tensor.dtype != like.dtype:
        raise CollectiveError(
            f"{operation} over {size} ranks: the large tensor must have {size} times the "
            f"{like.numel()} elements of the small one, of {like.dtype}; it has {tensor.numel()} "
            f"of {tensor.dtype}"
        )
    if not tensor.is_contiguous():
        raise CollectiveError(
            f"{operation}: the large tensor of shape {tuple(tensor.shape)} is not contiguous; "
            "pass tensor.contiguous()"
        )
    return tensor.detach().view(size, *like.shape)
