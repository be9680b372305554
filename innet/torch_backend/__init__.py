"""``torch.distributed.init_process_group("innet")``: PyTorch's collectives over innet.

PyTorch finds :func:`register` through the entry point group ``torch.backends`` and calls it while
it is imported. That costs little: this package imports nothing of PyTorch before a program makes a
process group. Read ``process_group`` first.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from innet.imports import no_garbage_collection
from innet.torch_backend.loopback_rendezvous import refuse_loopback_rendezvous
from innet.torch_backend.options import BACKEND_NAME, Options

if TYPE_CHECKING:
    from torch._C._distributed_c10d import _DistributedBackendOptions
    from torch.distributed import ProcessGroup

    from innet.torch_backend.creation import recover

__all__ = ["Options", "recover", "register"]


def __getattr__(name: str) -> Any:
    if name != "recover":
        raise AttributeError(f"module 'innet.torch_backend' has no attribute {name!r}")
    from innet.torch_backend.creation import recover

    return recover


def register() -> None:
    """Register the backend ``innet``; PyTorch calls this while it is being imported.

    Call it yourself where TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns that off. A second call does no
    harm.
    """
    import torch.distributed as dist

    if dist.is_available():
        refuse_loopback_rendezvous()
        dist.Backend.register_backend(
            BACKEND_NAME, _create, extended_api=True, devices=["cpu", "cuda"]
        )
        _name_the_launcher(dist)


def _name_the_launcher(dist: ModuleType) -> None:
    """Let ``init_process_group("innet")`` without a launcher say how the program is started.

    PyTorch looks for ``RANK`` before it calls a backend, and names that variable alone.
    """
    as_it_is = dist.init_process_group
    if hasattr(as_it_is, "_innet_wraps"):
        return

    @functools.wraps(as_it_is)
    def init_process_group(
        backend: str | None = None, init_method: str | None = None, *args: Any, **options: Any
    ) -> Any:
        by_environment = init_method in (None, "env://") and options.get("store") is None
        if BACKEND_NAME in str(backend) and by_environment and "RANK" not in os.environ:
            from innet.worker import current_worker

            if not os.environ.get("INNET_NETWORK") and options.get("rank", -1) < 0:
                current_worker()  # raises the error that names `innet run`
        return as_it_is(backend, init_method, *args, **options)

    vars(init_process_group)["_innet_wraps"] = as_it_is
    for module in (dist, dist.distributed_c10d):
        vars(module)["init_process_group"] = init_process_group


def _create(options: _DistributedBackendOptions, pg_options: object) -> ProcessGroup:
    with no_garbage_collection():
        from innet.torch_backend.creation import create_process_group

    return create_process_group(options, pg_options)
