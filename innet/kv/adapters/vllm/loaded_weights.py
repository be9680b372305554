"""The weights that this process of vLLM has loaded, as its own functions load them.

A file says what an engine loads, not what it has loaded: adapters are loaded again when they have
left vLLM's cache, and trainers replace a model's weights while it serves. So the functions that
load weights are observed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, TypeVar

from vllm.config import VllmConfig
from vllm.lora.request import LoRARequest
from vllm.lora.utils import get_adapter_absolute_path

from innet.kv.adapters.identity import FileDigests, default_cache_folder
from innet.kv.adapters.lora import Adapter, AdapterFiles, stamp_of

Result = TypeVar("Result")

_WORKER: Final = ("vllm.v1.worker.gpu_worker", "Worker")
"""Base of all workers that can replace a model's weights."""
_REPLACING: Final = (
    "reload_weights",
    "start_weight_update",
    "start_draft_weight_update",
    "update_weights",
)
_LOADER: Final = ("vllm.lora.worker_manager", "WorkerLoRAManager")
_LOAD: Final = "_load_adapter"

_log = logging.getLogger(__name__)


class LoadedWeights:
    """What this process has loaded, and what that excludes from the pool.

    Attributes:
        replaced: how a model's weights were replaced; empty: they are those of its files.
    """

    def __init__(self) -> None:
        self.replaced = ""
        self._adapters: dict[tuple[str, str], set[str]] = {}
        self._is_observing_adapters = False

    def observe(self, adapters: AdapterFiles) -> None:
        """Observe vLLM's functions from now on.

        Args:
            adapters: identifies adapters when they are loaded.
        """
        for method in _REPLACING:
            _wrap(*_WORKER, method, functools.partial(self._replace, method))
        self._is_observing_adapters = _wrap(
            *_LOADER, _LOAD, functools.partial(self.load_adapter, adapters)
        )

    def load_adapter(
        self, adapters: AdapterFiles, load: Callable[..., Result], loader: Any, request: LoRARequest
    ) -> Result:
        """Load an adapter, and record what was loaded."""
        folder = get_adapter_absolute_path(request.lora_path)
        before = None
        with suppress(OSError):  # vLLM names the missing file
            before = stamp_of(folder)
        result = load(loader, request)
        found = identified(adapters, request)
        is_known = found is not None and stamp_of(folder) == before
        loaded = self._adapters.setdefault((request.lora_name, request.lora_path), set())
        loaded.add(found.identity if found is not None and is_known else "")
        return result

    def refusal(self, adapter: Adapter | None, *, is_computed: bool) -> str:
        """Why blocks may not be loaded or saved; empty: they may.

        Args:
            adapter: with which the scheduler names them.
            is_computed: this process has computed with the adapter, so it must have loaded it.
        """
        if self.replaced:
            return f"the model's weights were replaced while it served ({self.replaced})"
        if adapter is None:
            return ""
        loaded = self._adapters.get((adapter.name, adapter.path))
        if loaded is None and not is_computed:
            return ""
        if loaded == {adapter.identity}:
            return ""
        if loaded is None and not self._is_observing_adapters:
            return f"this version of vLLM has no {_LOADER[1]}.{_LOAD} to observe what it loads"
        return f"the adapter {adapter.name} was loaded from other files than it has now"

    def _replace(
        self, method: str, replace: Callable[..., Result], *args: Any, **options: Any
    ) -> Result:
        if not self.replaced:
            _log.warning(
                "%s replaces the model's weights: from now on this engine neither loads blocks "
                "from the pool nor saves any. Restart it to share blocks again",
                method,
            )
        self.replaced = method
        return replace(*args, **options)


def identified(adapters: AdapterFiles, request: LoRARequest) -> Adapter | None:
    """The adapter of a request; ``None``: its blocks may not be shared."""
    folder = get_adapter_absolute_path(request.lora_path)
    settings = {"is_3d": bool(getattr(request, "is_3d_lora_weight", False))}
    return adapters.adapter(request.lora_name, request.lora_path, folder, settings)


def adapter_files(config: VllmConfig) -> AdapterFiles:
    """The identities of an engine's adapters."""
    lora = config.lora_config
    names = ("lora_dtype", "target_modules", "enable_tower_connector_lora",
             "enable_mixed_moe_lora_format", "enable_moe_shared_loras")  # fmt: skip
    settings = {} if lora is None else {name: str(getattr(lora, name, None)) for name in names}
    return AdapterFiles(FileDigests(default_cache_folder()), settings)


def _wrap(module: str, owner: str, method: str, observer: Callable[..., Any]) -> bool:
    """Let ``observer`` call a method, which is its first argument; whether there is one."""
    try:
        found = getattr(import_module(module), owner)
        original = getattr(found, method)
    except (ImportError, AttributeError):
        return False

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return observer(original, *args, **options)

    setattr(found, method, call)
    return True
