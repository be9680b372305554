"""Runs tests that PyTorch has written for one GPU per rank in the processor's memory.

Most of them test what happens between the ranks (DistributedDataParallel, its hooks, its errors),
for which it does not matter where the tensors are.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

_CPU = torch.device("cpu")
# What is 1000 pixels wide, to keep a GPU busy, takes a CPU hours. The gradients, which go over the
# network, are of the same size for any image.
_LARGEST_IMAGE_PIXELS = 32


def on_cpu(test: Callable[..., None]) -> Callable[..., None]:
    """A decorator in the place of those that ask for GPUs."""

    @functools.wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        with contextlib.ExitStack() as stack:
            for name, substitute in _CUDA.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, substitute))
            stack.enter_context(
                mock.patch.object(DistributedDataParallel, "__init__", _init_without_devices)
            )
            stack.enter_context(_TensorsStay())
            test(*args, **kwargs)

    return wrapper


def on_cpu_instead_of(*_: object, **__: object) -> Callable[..., Callable[..., None]]:
    """:func:`on_cpu`, for decorators with arguments (how many GPUs)."""
    return on_cpu


def one_device_each(world_size: int, _: str) -> dict[int, list[int]]:
    """The devices of each rank, as tests ask for them."""
    return {rank: [rank] for rank in range(world_size)}


class _TensorsStay(TorchFunctionMode):
    """Tensors are made on the CPU and stay there, whatever device is asked for."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.ones and len(args) == 4:
            args = (*args[:2], *(min(extent, _LARGEST_IMAGE_PIXELS) for extent in args[2:]))
        if named.get("device") is not None:
            named["device"] = _here(named["device"])
        if func is torch.Tensor.to or func is torch._C._nn._parse_to:  # the latter: Module.to()
            args = tuple(map(_here, args))
        return func(*args, **named)


def _here(target: Any) -> Any:
    """The CPU for any device; what else ``Tensor.to`` takes stays as it is."""
    if isinstance(target, str | torch.device):
        return target if torch.device(target).type == "meta" else _CPU
    # A number is that of a GPU.
    return _CPU if isinstance(target, int) and not isinstance(target, bool) else target


_init_with_devices = DistributedDataParallel.__init__


def _init_without_devices(
    self: DistributedDataParallel,
    module: torch.nn.Module,
    device_ids: object = None,
    output_device: object = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    _init_with_devices(self, module, None, None, *args, **kwargs)


_CUDA: dict[str, Any] = {
    "set_device": lambda _: None,
    "synchronize": lambda device=None: None,
    "current_device": lambda: _CPU,
    "device": lambda _: contextlib.nullcontext(),
}
