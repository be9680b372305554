"""Whether ``dist.all_gather_object`` and its like pickle objects, send weights only, or refuse.

PyTorch pickles objects into tensors and unpickles what other members send, above the backend. A
pickle runs what its sender likes, so every member is trusted with the processes of all others. The
setting ``security.object_collectives`` says otherwise for the groups of innet in this process.
"""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from innet.errors import CollectiveError, SecurityError
from innet.settings import ObjectCollectives
from innet.torch_backend.process_group import InnetProcessGroup
from innet.worker import current_worker

_RECEIVING = ("broadcast_object_list", "scatter_object_list", "recv_object_list")
"""On some ranks these encode nothing, and would wait for a sender that has been refused."""


@functools.cache
def guard_object_collectives() -> None:
    """From now on the setting decides about the objects of innet's groups, and of no others."""
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
