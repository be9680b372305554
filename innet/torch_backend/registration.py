"""Makes the backend known to PyTorch, without importing any of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from innet.torch_backend.options import BACKEND_NAME

if TYPE_CHECKING:
    from torch._C._distributed_c10d import _DistributedBackendOptions
    from torch.distributed import ProcessGroup


def register() -> None:
    """Register the backend ``innet``; PyTorch calls this while it is being imported.

    Call it yourself where TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off. Twice does no harm.
    """
    import torch.distributed as dist

    if dist.is_available():
        dist.Backend.register_backend(
            BACKEND_NAME, _create, extended_api=True, devices=["cpu", "cuda"]
        )


def _create(options: _DistributedBackendOptions, pg_options: object) -> ProcessGroup:
    with _no_garbage_collection():
        from innet.torch_backend.creation import create_process_group

    return create_process_group(options, pg_options)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep the collector off: imports make little garbage, and it visits all objects of PyTorch."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
