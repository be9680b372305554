"""DistributedDataParallel's ``join()`` for ranks that run out of inputs before the others."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from innet.torch_backend.process_group import InnetProcessGroup
from innet.torch_backend.work import CollectiveWork


@functools.cache
def support_uneven_inputs() -> None:
    """From now on, ranks may leave a ``join()`` one after the other over innet, too."""
    _contribute_no_used_parameters()
    _keep_notices()


def _contribute_no_used_parameters() -> None:
    """A rank that has joined says that it used no parameter.

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


def _keep_notices() -> None:
    """The notice that a rank still has inputs lives as long as the step that it announces.

    With ``divide_by_initial_world_size=False``, DistributedDataParallel's C++ waits in backward for
    the sum of the notices. PyTorch 2.13 hands it the work without a reference to the Python object,
    which would be gone by then; its methods with it, C++ would wait for an end that nobody tells.
    """
    joining: Any = Join
    as_it_is = joining.notify_join_context

    def notify(joinable: Any) -> Any:
        work = as_it_is(joinable)
        if isinstance(work, CollectiveWork):
            joinable._innet_notice = work
        return work

    joining.notify_join_context = staticmethod(notify)
