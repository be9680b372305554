"""An app whose library is not installed says which one, and how to install it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

KV_SERVING = Path(__file__).parents[2] / "apps" / "kv_serving.py"
_WITHOUT = """
import runpy, sys
sys.modules["transformers"] = None
sys.path.insert(0, sys.argv[1])
sys.argv = ["kv_serving.py"]
runpy.run_path(sys.path[0] + "/kv_serving.py", run_name="__main__")
"""


def test_kv_serving_without_transformers_says_what_to_install() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    ended = subprocess.run(
        [sys.executable, "-c", _WITHOUT, str(KV_SERVING.parent)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode not in (0, None)
    assert "kv_serving.py" in ended.stderr
    assert "needs the library transformers" in ended.stderr
    assert "pip install 'innet[serving]'" in ended.stderr
    assert "Traceback" not in ended.stderr
