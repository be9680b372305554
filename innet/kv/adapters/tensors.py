"""Tensors' bytes, as a pool takes and gives them."""

from __future__ import annotations

import numpy as np
import torch

from innet.kv.pool.network import Contents


def bytes_of(tensor: torch.Tensor) -> Contents:
    """A tensor's elements in C order, in one dimension.

    They are shared with the tensor where it is in host memory and contiguous, and copied where not.
    """
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu()
    contents: Contents = flat.numpy()
    return contents


def tensor_of(contents: Contents, like: torch.Tensor) -> torch.Tensor | None:
    """A tensor of ``like``'s type and shape; ``None`` if the bytes are not as many as its own.

    It shares memory with ``contents`` if these may be written, and has a copy if not.
    """
    if contents.nbytes != like.numel() * like.element_size():
        return None
    writable = contents if contents.flags.writeable else contents.copy()
    flat = torch.from_numpy(np.ascontiguousarray(writable))
    return flat.view(like.dtype).reshape(like.shape)
