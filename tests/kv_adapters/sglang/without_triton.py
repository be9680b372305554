"""SGLang, where Triton is not installed.

SGLang imports Triton as a whole, though its storages need nothing of it; on Apple's machines it
puts stand-ins of its own in Triton's place. These are taken here, too, which spares a gigabyte.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def stand_in_for_triton() -> None:
    """Let SGLang be imported, if Triton is not installed."""
    if importlib.util.find_spec("triton") is not None:
        return
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
    import torch  # noqa: F401  (PyTorch must not find the stand-ins when it looks for Triton)

    sys.meta_path.insert(0, stubs._TritonFinder())
    stubs._make_mock("triton").Config = stubs._Config
