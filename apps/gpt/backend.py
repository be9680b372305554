"""Starts ``torch.distributed`` over innet, or over Gloo on the same hosts."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed
from torch._C._distributed_c10d import Store

from innet.node.node_config import NODE_CONFIG_VARIABLE, NodeConfig

# Any: PyTorch's stubs leave out what its compiled process groups can do.
distributed: Any = torch.distributed

BACKENDS = ("innet", "gloo")
_ADDRESSED_GLOO = "gloo_addressed"


def start(backend: str) -> None:
    """``init_process_group`` for all ranks of the job."""
    distributed.init_process_group(registered(backend))


def registered(backend: str) -> str:
    """The name under which PyTorch knows a backend that finds its way between emulated hosts.

    Args:
        backend: one of :data:`BACKENDS`.
    """
    if backend != "gloo" or NODE_CONFIG_VARIABLE not in os.environ:
        return backend
    address = _emulated_address()
    if address is None:  # emulated on loopback
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return backend
    _register_gloo(address)
    return _ADDRESSED_GLOO


def _emulated_address() -> str | None:
    """The IP address of this host in a network of namespaces, ``None`` elsewhere."""
    path = os.environ.get(NODE_CONFIG_VARIABLE)
    return None if path is None else NodeConfig.load(Path(path)).ip_address


def _register_gloo(address: str) -> None:
    """A Gloo that others reach at ``address``: by host name or interface, it would take one that
    other hosts have no route to."""

    def create(store: Store, rank: int, size: int, timeout: timedelta) -> Any:
        gloo = distributed.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = timeout
        return gloo(store, rank, size, options)

    distributed.Backend.register_backend(_ADDRESSED_GLOO, create, devices=["cpu"])
