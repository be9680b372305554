"""Changes to PyTorch's own functions, which affect groups of innet and no others.

* PyTorch checks arguments and pickles objects before it calls a method of the group. An error there
  fails the call on the other ranks too (:func:`watch_front_end`), and so does one in a
  communication hook (:func:`watch_communication_hooks`).
* ``all_gather_object`` and its like pickle objects, or do not (:func:`guard_object_collectives`).
* ``join()`` of DistributedDataParallel works over innet (:func:`support_uneven_inputs`).
"""

from __future__ import annotations

import functools
import inspect
import io
import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from innet.errors import CollectiveError, MismatchError, PeerError, ReductionOverflow, SecurityError
from innet.settings import ObjectCollectives
from innet.torch_backend.launcher import calls_begun, is_told
from innet.torch_backend.operation import stop_recording
from innet.torch_backend.process_group import InnetProcessGroup, fail_recv, fail_send
from innet.torch_backend.work import CollectiveWork
from innet.worker import current_worker

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
"""PyTorch's functions, and the operations of the group that each one calls."""

_MESSAGES = {"send": "dst", "recv": "src"}
"""Functions that send to or receive from one rank, and the argument that names it. ``recv`` without
a source is no part of the sequence of messages with one rank."""

_NOT_SYNCHRONISING = ("broadcast", "gather", "reduce", "scatter")

_FROM_ROOT = ("broadcast_object_list", "scatter_object_list")
"""Functions of several operations in which only the root contributes."""


@functools.cache
def watch_front_end() -> None:
    """From now on, an error in one of PyTorch's functions fails the call on every rank."""
    for name in (*_CALLS, *_MESSAGES):
        function: Any = getattr(distributed_c10d, name, None)
        while function is not None and "func" not in function.__code__.co_freevars:
            function = getattr(function, "__wrapped__", None)
        if function is not None:
            # Programs may hold PyTorch's decorated function: replace the function that it calls.
            cell = function.__closure__[function.__code__.co_freevars.index("func")]
            cell.cell_contents = _watched(name, cell.cell_contents)


def _watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        begun = calls_begun()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            try:
                given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
            except TypeError:
                given = {**kwargs, "group": kwargs.get("group", _UNKNOWN)}
            with suppress(TypeError):  # a tag or a rank may be no number
                _tell_others(name, given, calls_begun() - begun, error)
            raise

    return watched


_UNKNOWN = "unknown"
"""Placeholder for the group of a call."""


def _group_meant(name: str, given: Any) -> object:
    """The group of a call; where PyTorch refuses what it was given, most likely the world.

    Then the calls of this rank's other groups may be out of step, too.
    """
    if isinstance(given, dist.ProcessGroup):
        return given
    if given:
        for group in distributed_c10d._world.pg_map:
            if isinstance(group, InnetProcessGroup) and group is not dist.group.WORLD:
                group.launcher.leave_step(name)
    return dist.group.WORLD


def _tell_others(name: str, given: dict[str, Any], begun: int, error: BaseException) -> None:
    """Fail the operations that ``name`` has not called yet, if the other ranks call them."""
    group = _group_meant(name, given.get("group"))
    if not isinstance(group, InnetProcessGroup):
        return
    stop_recording(group)
    if name in _MESSAGES:
        if begun == 0 and not is_told(error):
            _fail_message(name, group, given, error)
        return
    if is_told(error) or (begun > 0 and isinstance(error, _OF_ALL_RANKS)):
        return  # the other ranks stop here too
    left = _CALLS[name][begun:]
    if name not in _FROM_ROOT or _is_root(group, given):
        left = left[:1]  # when it fails, the other ranks call no more
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
    """Send an error in place of the message, or skip the message that was to be received."""
    peer = given.get(f"group_{_MESSAGES[name]}")
    if peer is None and given.get(_MESSAGES[name]) is not None:
        peer = dist.get_group_rank(group, given[_MESSAGES[name]])
    if not isinstance(peer, int) or peer not in range(group.size()) or peer == group.rank():
        return  # no rank waits for it
    fail = fail_send if name == "send" else fail_recv
    tag = operator.index(given.get("tag", 0))
    group.launcher.fail(name, error, fail(group, peer, tag))


@functools.cache
def watch_communication_hooks() -> None:
    """From now on, an error in a hook of DistributedDataParallel is one on every rank.

    The other ranks go on with the buckets behind it. So does this rank, and raises the error after
    the last of them: otherwise they would take its next operations for those of the buckets.
    """
    replaced: Any = DistributedDataParallel
    as_it_is = replaced.register_comm_hook

    @functools.wraps(as_it_is)
    def register(module: DistributedDataParallel, state: object, hook: Callable[..., Any]) -> None:
        group = module.process_group
        if isinstance(group, InnetProcessGroup) and callable(hook):
            hook = _watched_hook(group, hook)
        as_it_is(module, state, hook)

    replaced.register_comm_hook = register


def _watched_hook(group: InnetProcessGroup, hook: Callable[..., Any]) -> Callable[..., Any]:
    first_error: Exception | None = None  # of this backward pass

    @functools.wraps(hook)
    def watched(state: object, bucket: Any) -> Any:
        nonlocal first_error
        if bucket.index() == 0:
            first_error = None
        begun = calls_begun()
        try:
            future = hook(state, bucket)
        except BaseException as error:
            if calls_begun() == begun:
                group.launcher.fail(_HOOK, error)
            if not isinstance(error, Exception):
                group.launcher.leave_step(_HOOK)
                raise
            first_error = first_error or error
            future = torch.futures.Future[torch.Tensor]()
            future.set_result(bucket.buffer())
        if first_error is None or not bucket.is_last():
            return future
        raised, first_error = first_error, None
        if not isinstance(raised, _OF_ALL_RANKS):
            group.launcher.leave_step(_HOOK)  # hooks of other ranks may have made more calls
        raise raised

    return watched


_HOOK = "a communication hook"
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


_RECEIVING = ("broadcast_object_list", "scatter_object_list", "recv_object_list")
"""On some ranks these encode nothing, and would wait for a sender that was refused."""


@functools.cache
def guard_object_collectives() -> None:
    """From now on ``security.object_collectives`` decides how innet's groups send objects.

    PyTorch pickles objects into tensors and unpickles what other ranks send, above the backend. A
    pickle runs code of its sender, so each rank trusts all others with its process. The setting can
    restrict objects to tensors and plain containers, or refuse object collectives.
    """
    replaced: Any = distributed_c10d  # these functions of it have no types
    replaced._object_to_tensor = _encoding(replaced._object_to_tensor)
    replaced._tensor_to_object = _decoding(replaced._tensor_to_object)
    for name in _RECEIVING:
        guarded = _refusing(getattr(replaced, name))
        setattr(replaced, name, guarded)
        setattr(dist, name, guarded)


def _encoding(pickled: Callable[..., Any]) -> Callable[..., Any]:
    def object_to_tensor(obj: object, device: Any, group: Any) -> Any:
        if _mode_of(group) == "allow":
            return pickled(obj, device, group)
        _require_allowed(group)
        saved = io.BytesIO()
        torch.save(obj, saved)
        contents = torch.empty(saved.tell(), dtype=torch.uint8)  # PyTorch changes its size later
        contents.copy_(torch.frombuffer(saved.getbuffer(), dtype=torch.uint8))
        return contents.to(device), torch.tensor([len(contents)], device=device)

    return object_to_tensor


def _decoding(unpickled: Callable[..., Any]) -> Callable[..., Any]:
    def tensor_to_object(tensor: torch.Tensor, tensor_size: Any, group: Any) -> Any:
        if _mode_of(group) == "allow":
            return unpickled(tensor, tensor_size, group)
        _require_allowed(group)
        contents = tensor.cpu().numpy().tobytes()[: int(tensor_size)]
        try:
            return torch.load(io.BytesIO(contents), weights_only=True)
        except Exception as error:  # damaged bytes make the parser raise almost anything
            raise SecurityError(
                "an object of another rank is more than tensors and plain containers, or damaged, "
                "and security.object_collectives=weights-only takes nothing else. Send a state "
                "dict, or name the class on all ranks: torch.serialization.add_safe_globals([...])"
            ) from error

    return tensor_to_object


def _refusing(as_it_is: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(as_it_is)

    @functools.wraps(as_it_is)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        _require_allowed(signature.bind(*args, **kwargs).arguments.get("group"))
        return as_it_is(*args, **kwargs)

    return guarded


def _mode_of(group: Any) -> ObjectCollectives:
    if not isinstance(group or dist.group.WORLD, InnetProcessGroup):
        return "allow"
    return current_worker().settings.security.object_collectives


def _require_allowed(group: Any) -> None:
    if _mode_of(group) == "refuse":
        raise CollectiveError(
            "object collectives are refused (security.object_collectives=refuse): they unpickle "
            "what other ranks send. Send tensors, or choose weights-only"
        )


@functools.cache
def support_uneven_inputs() -> None:
    """From now on, ranks of innet's groups may run out of inputs at different steps."""
    _contribute_no_used_parameters()
    _keep_notices()


def _contribute_no_used_parameters() -> None:
    """Let a rank that has joined contribute that it used no parameter.

    With ``find_unused_parameters``, ranks add up maps of the parameters that each one used. In
    PyTorch 2.13 a joined rank contributes the contents of its map: uninitialised memory if it had
    no input at all, else the last sum, which therefore grows with each step, and wraps around.
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
    """Keep the work that announces a step alive until the step ends.

    With ``divide_by_initial_world_size=False``, DistributedDataParallel's C++ waits for that work
    in backward. PyTorch 2.13 passes it without a reference to the Python object. When that object
    is gone, its methods are gone, and C++ waits forever.
    """
    joining: Any = Join
    as_it_is = joining.notify_join_context

    def notify(joinable: Any) -> Any:
        work = as_it_is(joinable)
        if isinstance(work, CollectiveWork):
            joinable._innet_notice = work
        return work

    joining.notify_join_context = staticmethod(notify)
