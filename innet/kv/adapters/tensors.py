"""Tensors to and from the bytes of blocks, which a codec may have quantised."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from innet.kv.codec import CODED_TYPES, CodecName, decode_flat, encode_flat, flat_bytes
from innet.kv.pool.network import Contents
from innet.plans.element_types import ELEMENT_TYPES

_NAMES: Final = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
_CODED: Final = {
    dtype: ELEMENT_TYPES[name].dtype for dtype, name in _NAMES.items() if name in CODED_TYPES
}
"""Types of elements that a codec quantises; others are left as they are."""


def coded_order(order: str, codec: CodecName | None) -> str:
    """The order of dimensions in a layout, which distinguishes blocks of each codec.

    >>> coded_order("vllm-bhnc", "fp8"), coded_order("vllm-bhnc", None)
    ('vllm-bhnc-fp8', 'vllm-bhnc')
    """
    return order if codec is None else f"{order}-{codec}"


def block_bytes(count: int, dtype: torch.dtype, codec: CodecName | None) -> int:
    """Size of that many elements in a block."""
    is_plain = codec is None or dtype not in _CODED
    return count * dtype.itemsize if is_plain else flat_bytes(count)


def encoded(contents: Contents, dtype: torch.dtype, codec: CodecName | None) -> Contents:
    """The bytes of a block for elements of a type."""
    if codec is None or dtype not in _CODED:
        return contents
    return encode_flat(contents.view(_CODED[dtype]), codec)


def decoded(
    contents: Contents, count: int, dtype: torch.dtype, codec: CodecName | None
) -> Contents | None:
    """The bytes of that many elements of a type; ``None``: ``contents`` have another size."""
    if contents.nbytes != block_bytes(count, dtype, codec):
        return None
    if codec is None or dtype not in _CODED:
        return contents
    elements = decode_flat(contents, count, _CODED[dtype], codec)
    return None if elements is None else elements.view(np.uint8)


def bytes_of(tensor: torch.Tensor, codec: CodecName | None = None) -> Contents:
    """A tensor's elements in C order, in one dimension.

    Without a codec they share the memory of a contiguous tensor in host memory, and are copied
    otherwise.
    """
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
    contents: Contents = flat.numpy()
    return encoded(contents, tensor.dtype, codec)


def tensor_of(
    contents: Contents, like: torch.Tensor, codec: CodecName | None = None
) -> torch.Tensor | None:
    """A tensor of ``like``'s type and shape; ``None`` if the number of bytes differs.

    It shares memory with writable ``contents``, and has a copy otherwise.
    """
    found = decoded(contents, like.numel(), like.dtype, codec)
    if found is None:
        return None
    writable = found if found.flags.writeable else found.copy()
    flat = torch.from_numpy(np.ascontiguousarray(writable))
    return flat.view(like.dtype).reshape(like.shape)
