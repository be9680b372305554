"""vLLM's connectors of two processes, over a real network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: `make kv-adapters` tests with it")

from tests.kv_adapters.running import run_on_two_hosts
from tests.kv_adapters.vllm.engine import CHUNK, write_model

PROGRAM = Path(__file__).with_name("prompt_on_two_hosts.py")


def test_one_process_loads_what_another_computed(tmp_path: Path) -> None:
    write_model(tmp_path)
    printed = run_on_two_hosts([str(PROGRAM), str(tmp_path)])
    [computed] = json.loads(printed["h0"][-1])
    [loaded] = json.loads(printed["h1"][-1])
    assert computed == {"computed_tokens": 61, "is_right": True, "failed_blocks": 0}
    left = 61 - 61 // CHUNK * CHUNK
    assert loaded == {"computed_tokens": left, "is_right": True, "failed_blocks": 0}
