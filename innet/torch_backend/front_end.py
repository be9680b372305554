"""Calls of ``torch.distributed`` that fail before they reach a process group.

PyTorch checks arguments, and pickles objects, before it calls a method of the group. What fails
there fails on the other ranks too, as what fails in the group does.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from innet.errors import MismatchError, PeerError, ReductionOverflow
from innet.torch_backend.coalescing import stop_recording
from innet.torch_backend.launcher import calls_begun, is_told
from innet.torch_backend.process_group import InnetProcessGroup, fail_recv, fail_send

_CALLS = {
    "all_gather": ("all_gather",),
    "all_gather_coalesced": ("all_gather",),
    "all_gather_into_tensor": ("all_gather",),
    "all_gather_object": ("all_gather", "all_gather"),
    "all_gather_single": ("all_gather",),
    "all_reduce": ("all_reduce",),
    "all_reduce_coalesced": ("all_reduce",),
    "all_to_all": ("all_to_all",),
    "all_to_all_single": ("all_to_all",),
    "barrier": ("barrier",),
    "broadcast": ("broadcast",),
    "broadcast_object_list": ("broadcast", "broadcast"),
    "gather": ("gather",),
    "gather_object": ("all_gather", "gather"),
    "reduce": ("reduce",),
    "reduce_scatter": ("reduce_scatter",),
    "reduce_scatter_single": ("reduce_scatter",),
    "reduce_scatter_tensor": ("reduce_scatter",),
    "scatter": ("scatter",),
    "scatter_object_list": ("broadcast", "scatter", "scatter"),
}
"""PyTorch's functions, and what each calls of the group."""

_MESSAGES = {"send": "dst", "recv": "src"}
"""Those that concern one other rank, and the argument that names it. A receive from any rank has no
place among the messages of one."""

_NOT_SYNCHRONISING = ("broadcast", "gather", "reduce", "scatter")

_FROM_ROOT = ("broadcast_object_list", "scatter_object_list")
"""Those of several calls in which nobody needs what ranks other than the root contribute."""


@functools.cache
def watch_front_end() -> None:
    """From now on, what fails in PyTorch's functions over a group of innet fails on every rank."""
    for name in (*_CALLS, *_MESSAGES):
        function: Any = getattr(distributed_c10d, name, None)
        while function is not None and "func" not in function.__code__.co_freevars:
            function = getattr(function, "__wrapped__", None)
        if function is not None:
            # Programs hold PyTorch's decorated function already; the one that it calls is replaced.
            cell = function.__closure__[function.__code__.co_freevars.index("func")]
            cell.cell_contents = _watched(name, cell.cell_contents)


def _watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        begun = calls_begun()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            with suppress(TypeError):  # arguments of no such function: nobody can tell the group
                given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
                _tell_others(name, given, calls_begun() - begun, error)
            raise

    return watched


def _tell_others(name: str, given: dict[str, Any], begun: int, error: BaseException) -> None:
    """Fail the calls of the group that ``name`` did not come to, if other ranks make them."""
    group = given.get("group") or dist.group.WORLD
    if not isinstance(group, InnetProcessGroup):
        return
    stop_recording(group)
    if name in _MESSAGES:
        if begun == 0 and not is_told(error):
            _fail_message(name, group, given, error)
        return
    if is_told(error) or (begun > 0 and isinstance(error, _OF_ALL_RANKS)):
        return  # they go no further either
    left = _CALLS[name][begun:]
    if name not in _FROM_ROOT or _is_root(group, given):
        left = left[:1]  # after it, the others make no more calls
    for call in left:
        group.launcher.fail(
            name,
            error,
            _failing_messages(name, group, given),
            synchronising=call not in _NOT_SYNCHRONISING,
        )


def _fail_message(
    name: str, group: InnetProcessGroup, given: dict[str, Any], error: BaseException
) -> None:
    """Give the receiver of a message an error in its place, or leave out the one to receive."""
    peer = given.get(f"group_{_MESSAGES[name]}")
    if peer is None and given.get(_MESSAGES[name]) is not None:
        peer = dist.get_group_rank(group, given[_MESSAGES[name]])
    if not isinstance(peer, int) or peer not in range(group.size()) or peer == group.rank():
        return  # nobody waits for it
    fail = fail_send if name == "send" else fail_recv
    group.launcher.fail(name, error, fail(group, peer, given.get("tag", 0)))


_OF_ALL_RANKS = (MismatchError, PeerError, ReductionOverflow)


def _failing_messages(
    name: str, group: InnetProcessGroup, given: dict[str, Any]
) -> Callable[[BaseException], None] | None:
    has_sizes = given.get("input_split_sizes") or given.get("output_split_sizes")
    if name == "all_to_all" or (name == "all_to_all_single" and has_sizes):
        return group.steps.fail_alltoall
    return None


def _is_root(group: InnetProcessGroup, given: dict[str, Any]) -> bool:
    if given.get("group_src") is not None:
        return bool(given["group_src"] == group.rank())
    source = given.get("src") or 0
    return bool(dist.get_group_rank(group, source) == group.rank())
