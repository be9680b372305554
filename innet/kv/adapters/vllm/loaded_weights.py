"""The weights that this process of vLLM has loaded, as its own functions load them.

A file says what an engine loads, not what it has loaded: adapters are loaded again when they have
left vLLM's cache, and trainers replace a model's weights while it serves. So the functions that
load weights are observed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from vllm.config import VllmConfig
from vllm.lora.request import LoRARequest
from vllm.lora.utils import get_adapter_absolute_path

from innet.kv.adapters.identity import FileDigests, default_cache_folder
from innet.kv.adapters.lora import Adapter, AdapterFiles, stamp_of
from innet.kv.adapters.observation import WeightReplacements, observe
from innet.kv.adapters.vllm_names import LOADER, REPLACING, WORKER

Result = TypeVar("Result")


class LoadedWeights:
    """What this process has loaded, and what that excludes from the pool.

    Attributes:
        replacements: of the model's weights.
    """

    def __init__(self) -> None:
        self.replacements = WeightReplacements()
        self._adapters: dict[tuple[str, str], set[str]] = {}
        self._is_observing_adapters = False

    def observe(self, adapters: AdapterFiles) -> None:
        """Observe vLLM's functions from now on.

        Args:
            adapters: identifies adapters when they are loaded.
        """
        self.replacements.observe(*WORKER, REPLACING)
        self.replacements.observe_models()
        observe(*WORKER, "sleep", self.sleep)
        self._is_observing_adapters = observe(
            *LOADER, functools.partial(self.load_adapter, adapters)
        )

    def sleep(self, sleep: Callable[..., Result], worker: Any, level: int = 1) -> Result:
        """Sleep; level 2 drops the weights, and who wakes the engine loads some again."""
        if level > 1:
            return self.replacements.replace(f"sleep at level {level}", sleep, worker, level)
        return sleep(worker, level)

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
        if method := self.replacements.method:
            return f"{method} has replaced the model's weights while it served"
        if adapter is None:
            return ""
        loaded = self._adapters.get((adapter.name, adapter.path))
        if loaded is None and not is_computed:
            return ""
        if loaded == {adapter.identity}:
            return ""
        if loaded is None and not self._is_observing_adapters:
            return f"this version of vLLM has no {'.'.join(LOADER[1:])} to observe what it loads"
        return f"the adapter {adapter.name} was loaded from other files than it has now"


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
