"""vLLM's connectors of two processes, over a real network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: `make kv-adapters` tests with it")

from tests.kv_adapters.running import run_on_two_hosts
from tests.kv_adapters.vllm.engine import CHUNK, write_model

PROGRAM = Path(__file__).with_name("prompt_on_two_hosts.py")
RANK = Path(__file__).with_name("rank_at_a_pool.py")
POOL = """
name: ranks
topology: star:2
pool:
  engines: 1
  tenants:
    acme: {secret: acme.secret, memory: 16MiB}
"""


def test_one_process_loads_what_another_computed(tmp_path: Path) -> None:
    write_model(tmp_path)
    printed = run_on_two_hosts([str(PROGRAM), str(tmp_path)])
    [computed] = json.loads(printed["h0"][-1])
    [loaded] = json.loads(printed["h1"][-1])
    assert computed == {"computed_tokens": 61, "is_right": True, "failed_blocks": 0}
    left = 61 - 61 // CHUNK * CHUNK
    assert loaded == {"computed_tokens": left, "is_right": True, "failed_blocks": 0}


@pytest.mark.timeout(900)
def test_ranks_that_attach_to_a_standing_pool_load_their_own_parts(tmp_path: Path) -> None:
    model = tmp_path / "model"  # all files of its folder identify it
    model.mkdir()
    write_model(model)
    (tmp_path / "pool.yaml").write_text(POOL)
    secret = tmp_path / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text("at least sixteen bytes")
    options = json.dumps({"address": "ranks", "tenant": "acme", "secret": str(secret)})

    def run(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    run("-m", "innet", "kv", "serve", str(tmp_path / "pool.yaml"), "--detach")
    try:
        ranks = [json.loads(run(str(RANK), str(model), rank, options)) for rank in "011"]
    finally:
        run("-m", "innet", "down", "ranks")
    assert all(rank["is_right"] and not rank["failed_blocks"] for rank in ranks)
    # Both ranks of the first engine compute all, and one of the second loads its part of that.
    left = 61 - 61 // CHUNK * CHUNK
    assert [rank["computed_tokens"] for rank in ranks] == [61, 61, left]
