"""SGLang on a processor, without the packages that it imports for accelerators.

SGLang imports Triton as a whole, though a processor needs nothing of it; on Apple's machines it
puts stand-ins of its own in Triton's place. These are taken here, too, for Triton and torchvision,
which spares gigabytes. SGLang's compiled kernels (``sgl_kernel``) exist for accelerators alone:
each of them is an error when it is called, but those that copy pages between the device's cache and
the host's, which are lines of PyTorch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_STAND_INS: Final = ("triton", "torchvision")
_TRITON: Final = "3.0.0"
_POOLS: Final = "sglang.srt.mem_cache.pool_host"


def stand_in() -> None:
    """Let SGLang be imported and compute, if Triton is not installed."""
    if importlib.util.find_spec("triton") is not None:
        return
    # Before the stand-ins are there, which PyTorch and transformers must not find.
    import torch  # noqa: F401
    from transformers.utils.import_utils import is_torchvision_available

    is_torchvision_available()
    stubs = _stubs_for_apple()
    sys.meta_path[:0] = [_StandIns(stubs._MockModule), _Amended()]
    importlib.import_module("triton").Config = stubs._Config  # type: ignore[attr-defined]
    sys.modules["sgl_kernel"] = _no_kernels()


def _stubs_for_apple() -> ModuleType:
    """SGLang's own module of stand-ins."""
    sglang = importlib.util.find_spec("sglang")
    assert sglang is not None
    assert sglang.origin is not None
    # By its file: importing it by its name would import SGLang first.
    path = Path(sglang.origin).with_name("_platform_stubs.py")
    spec = importlib.util.spec_from_file_location("sglang_platform_stubs", path)
    assert spec is not None
    assert spec.loader is not None
    stubs = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    return stubs


class _StandIns(MetaPathFinder, Loader):
    """Finds every module of a package that is stood in for."""

    def __init__(self, make: Callable[[str], ModuleType]) -> None:
        self._make = make

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in _STAND_INS:
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = self._make(spec.name)
        module.__version__ = _TRITON  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def _no_kernels() -> ModuleType:
    """SGLang's kernels, each of which is an error when it is called."""
    kernels = ModuleType("sgl_kernel")
    kernels.__spec__ = ModuleSpec(kernels.__name__, None)

    def kernel(name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_arguments: object, **_named: object) -> None:
            raise NotImplementedError(f"SGLang calls its kernel {name} on a processor")

        return refuse

    kernels.__getattr__ = kernel  # type: ignore[method-assign]
    return kernels


def _copy_tokens(
    src_layers: Sequence[Any],
    dst_layers: Sequence[Any],
    src_indices: Any,
    dst_indices: Any,
    page_size: int,
) -> None:
    """``transfer_kv_direct``: copy tokens of each layer between caches that begin with layers."""
    for source, target in zip(src_layers, dst_layers, strict=True):
        target[dst_indices] = source[src_indices]


def _load_tokens(
    src_ptrs: Sequence[Any],
    dst_ptrs: Sequence[Any],
    src_indices: Any,
    dst_indices: Any,
    layer_id: int,
    page_size: int,
) -> None:
    """``transfer_kv_per_layer_direct_pf_lf``: copy a layer from a cache that begins with pages."""
    pages = src_indices[::page_size] // page_size
    for source, target in zip(src_ptrs, dst_ptrs, strict=True):
        target[dst_indices] = source[pages, layer_id].flatten(0, 1)


def _save_tokens(
    src_ptrs: Sequence[Any],
    dst_ptrs: Sequence[Any],
    src_indices: Any,
    dst_indices: Any,
    page_size: int,
) -> None:
    """``transfer_kv_all_layer_direct_lf_pf``: copy all layers to a cache that begins with pages."""
    pages = dst_indices[::page_size] // page_size
    layers = len(src_ptrs) // len(dst_ptrs)
    for number, source in enumerate(src_ptrs):
        copied = source[src_indices].unflatten(0, (-1, page_size))
        dst_ptrs[number // layers][pages, number % layers] = copied


def _copy_with_pytorch(module: ModuleType) -> None:
    """A host cache's module imports its copying kernels for accelerators alone."""
    module.transfer_kv_direct = _copy_tokens  # type: ignore[attr-defined]
    module.transfer_kv_per_layer_direct_pf_lf = _load_tokens  # type: ignore[attr-defined]
    module.transfer_kv_all_layer_direct_lf_pf = _save_tokens  # type: ignore[attr-defined]


def _leave_unpinned(module: ModuleType) -> None:
    """Host caches pin their memory, for which PyTorch needs an accelerator, and are refused where
    they would leave less than 10 GiB of the host's memory."""
    module.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0  # type: ignore[attr-defined]
    cache = module.HostKVCache
    initialise = cache.__init__

    def unpinned(self: object, *arguments: object, **named: object) -> None:
        initialise(self, *arguments, **{**named, "pin_memory": False})

    cache.__init__ = unpinned


_AMENDMENTS: Final = {
    f"{_POOLS}.base": _leave_unpinned,
    f"{_POOLS}.mha": _copy_with_pytorch,
    f"{_POOLS}.mla": _copy_with_pytorch,
}
"""Of SGLang's modules, after they are imported."""


class _Amended(MetaPathFinder):
    """Finds the modules of SGLang that are amended."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _AMENDMENTS:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.loader is not None
        run = spec.loader.exec_module

        def run_amended(module: ModuleType) -> None:
            run(module)
            _AMENDMENTS[name](module)

        spec.loader.exec_module = run_amended  # type: ignore[method-assign]
        return spec
