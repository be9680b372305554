"""Refuses a rendezvous at a loopback address where the ranks' hosts have one each."""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

from innet.errors import CollectiveError

_LAUNCHERS_ADDRESS_VARIABLE = "PET_MASTER_ADDR"
"""Where the ranks of ``innet run`` meet: programs change MASTER_ADDR, and not this."""


def refuse_loopback_rendezvous() -> None:
    """From now on, PyTorch's store at a loopback address is an error where ranks cannot meet there.

    Each host of ``netns`` mode, and each machine, has a loopback of its own. PyTorch would try to
    connect to it until its timeout.
    """
    met_at = os.environ.get(_LAUNCHERS_ADDRESS_VARIABLE, "")
    if not met_at or _is_loopback(met_at) or os.environ.get("GROUP_WORLD_SIZE") == "1":
        return
    # Not by an attribute of the package: that is a function of the same name.
    replaced: Any = importlib.import_module("torch.distributed.rendezvous")
    as_it_is = replaced._create_c10d_store
    if hasattr(as_it_is, "__wrapped__"):
        return

    @functools.wraps(as_it_is)
    def create(hostname: str, *arguments: Any, **options: Any) -> Any:
        if _is_loopback(hostname):
            raise CollectiveError(
                f"the ranks cannot meet at {hostname}: each host has a loopback address of its own "
                f"here. Leave MASTER_ADDR as `innet run` sets it ({met_at}), and use "
                "init_method='env://'"
            )
        return as_it_is(hostname, *arguments, **options)

    replaced._create_c10d_store = create


def _is_loopback(address: str) -> bool:
    return address in ("localhost", "::1", "ip6-localhost") or address.startswith("127.")
