"""Python imports this in each process of a server whose ``PYTHONPATH`` has its folder.

When such a process imports SGLang, that computes on the processor.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

# SGLang takes what it can from vLLM, of which the environment has the sources alone.
sys.path[:] = [place for place in sys.path if not place.endswith("/vllm")]


class _BeforeSGLang(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "sglang":
            sys.meta_path.remove(self)
            from tests.kv_adapters.sglang.on_processor import stand_in

            stand_in()


sys.meta_path.insert(0, _BeforeSGLang())
