"""Tensors to and from the bytes of blocks."""

from __future__ import annotations

import numpy as np
import torch

from innet.kv.pool.network import Contents


def bytes_of(tensor: torch.Tensor) -> Contents:
    """A tensor's elements in C order, in one dimension.

    They share the memory of a contiguous tensor in host memory, and are copied otherwise.
    """
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
    contents: Contents = flat.numpy()
    return contents


def tensor_of(contents: Contents, like: torch.Tensor) -> torch.Tensor | None:
    """A tensor of ``like``'s type and shape; ``None`` if the number of bytes differs.

    It shares memory with writable ``contents``, and has a copy otherwise.
    """
    if contents.nbytes != like.numel() * like.element_size():
        return None
    writable = contents if contents.flags.writeable else contents.copy()
    flat = torch.from_numpy(np.ascontiguousarray(writable))
    return flat.view(like.dtype).reshape(like.shape)
