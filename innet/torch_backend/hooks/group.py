"""The process group that a hook works over."""

from __future__ import annotations

import torch.distributed as dist

from innet.errors import CollectiveError
from innet.torch_backend.process_group import InnetProcessGroup


def innet_group(group: dist.ProcessGroup | None) -> InnetProcessGroup:
    """``group``, or the default group.

    Raises:
        CollectiveError: it is of another backend.
    """
    chosen = dist.group.WORLD if group is None else group
    if not isinstance(chosen, InnetProcessGroup):
        raise CollectiveError(
            f"this hook needs a process group of the innet backend, not {chosen}; call "
            "init_process_group('innet'), or give the hook's state its process_group"
        )
    return chosen
