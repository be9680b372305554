"""Makes the backend known to PyTorch, without importing any of it."""

from __future__ import annotations

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
    from innet.torch_backend.creation import create_process_group

    return create_process_group(options, pg_options)
