"""DistributedDataParallel's ``join()`` for ranks that run out of inputs before the others."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from innet.torch_backend.process_group import InnetProcessGroup


@functools.cache
def contribute_no_used_parameters() -> None:
    """From now on, ranks that have joined say over innet that they used no parameter.

    With ``find_unused_parameters``, ranks add up maps of the parameters that each used. PyTorch
    2.13 has a joined rank contribute whatever its map holds: nothing that was ever set if it had no
    input at all, else the last sum, which so grows with each step. Gloo lets the sum wrap around,
    innet reports an integer that leaves its type.
    """
    replaced: Any = DistributedDataParallel  # its methods have no types
    as_it_is = replaced._match_unused_params_allreduce

    def match(module: DistributedDataParallel) -> None:
        if not isinstance(module.process_group, InnetProcessGroup):
            as_it_is(module)
            return
        used = module.reducer._get_local_used_map()
        module.process_group.allreduce([torch.zeros_like(used)])

    replaced._match_unused_params_allreduce = match
