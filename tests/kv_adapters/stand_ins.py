"""Adapters without their engines: what they import of these is stood in for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tests.kv_adapters.sglang.on_processor import stand_in


class _StandIns(MetaPathFinder, Loader):
    """Finds every module of an engine; what is imported of one is an empty class."""

    def __init__(self, engine: str) -> None:
        self._engine = engine

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != self._engine:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__version__ = "0"  # type: ignore[attr-defined]
        module.__getattr__ = _stand_in  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def _stand_in(name: str) -> Any:
    if name.startswith("__"):  # inspect looks for __file__ in every module, and expects text
        raise AttributeError(name)
    if name == "PoolName":  # whose members are read while the adapter is imported
        return StrEnum(name, ["KV", "MAMBA"])
    return type(name, (), {})


@contextmanager
def adapter_module(engine: str, name: str = "") -> Iterator[Any]:
    """A module of an engine's adapter, with the engine itself where that is installed."""
    qualified = f"innet.kv.adapters.{engine}.{name}".rstrip(".")
    if importlib.util.find_spec(engine) is not None:
        if engine == "sglang":
            stand_in()
        yield importlib.import_module(qualified)
        return
    before = set(sys.modules)
    finder = _StandIns(engine)
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(qualified)
    finally:
        sys.meta_path.remove(finder)
        for made in set(sys.modules) - before:
            if made.startswith((engine, f"innet.kv.adapters.{engine}")):
                del sys.modules[made]
