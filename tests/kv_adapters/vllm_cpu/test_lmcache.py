"""LMCache inside vLLM, by the documented file and command, over a standing pool of two hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.kv_adapters.running import (
    documented_command,
    documented_lmcache_file,
    free_ports,
    require_vllm_for_processors,
)

require_vllm_for_processors()
pytest.importorskip("lmcache", reason="LMCache is not installed here: `make kv-adapters` has it")

from prometheus_client.parser import text_string_to_metric_families

from shared.vllm_servers import (
    Pool,
    Server,
    prompt,
    standing_pool,
    write_model,
    write_window_model,
)
from tests.docs.command_lines import ROOT
from tests.kv_adapters.vllm_cpu.servers import ENVIRONMENT, QUICK_START

TOKENS = 1100
CHUNKS = TOKENS // 256
"""Whole chunks of LMCache's default size."""
SMALL = {"max_local_cpu_size": 0.1}
"""Settings of a small LMCache."""
STAND_IN = "tests.kv_adapters.vllm_cpu.lmcache_on_processor"
POLL_S = 0.3


@contextmanager
def serving(pool: Pool, host: str, port: int, model: Path) -> Iterator[Server]:
    """The documented command at a host, with the stand-in for LMCache's copies to a GPU."""
    command = documented_command("LMCache", "LMCACHE_CONFIG_FILE=lmcache.yaml vllm serve")
    for documented, tested in (
        ("MODEL", f"{model} --host 127.0.0.1 --port {port} {QUICK_START}"),
        ('"kv_role"', f'"kv_connector_module_path": "{STAND_IN}", "kv_role"'),
    ):
        assert documented in command
        command = command.replace(documented, tested)
    folder = pool.secret.parent
    options = {"address": pool.name, "secret": str(pool.secret)}
    (folder / "lmcache.yaml").write_text(documented_lmcache_file(SMALL, **options))
    own = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "INNET_HOST": host,
        "LMCACHE_TRACK_USAGE": "false",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",  # logprobs would call a compiler for C++
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    output = folder / f"{host}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec env {command}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT, **own},
            start_new_session=True,
        )
    server = Server(process, port, model, output)
    try:
        yield server
    finally:
        server.close()


def metric(pool: Pool, name: str, **labels: str) -> float:
    """The sum of the pool's samples with that name and those labels."""
    innet = [sys.executable, "-m", "innet", "metrics", pool.name, "--once"]
    text = subprocess.run(innet, capture_output=True, text=True, check=True).stdout
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "write",
    [write_model, partial(write_window_model, window=300)],
    ids=["full-attention", "sliding-window"],
)
def test_a_host_loads_what_another_computed_and_answers_the_same(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    model, port = tmp_path / "model", free_ports(2)
    write(model)
    with (
        standing_pool(tmp_path, engines=1) as pool,
        serving(pool, "h0", port, model) as one,
        serving(pool, "h1", port + 1, model) as other,
    ):
        one.wait_until_ready()
        cold = one.complete(prompt(7, TOKENS))
        while metric(pool, "innet_kv_stored_total", node="h0.1", engine="lmcache") < CHUNKS:
            threading.Event().wait(POLL_S)
        other.wait_until_ready()
        served = other.complete(prompt(7, TOKENS))
        assert (one.loaded_tokens, other.loaded_tokens) == (0, CHUNKS * 256)
        assert metric(pool, "innet_kv_hits_total", node="h1.1", engine="lmcache") == CHUNKS
        assert (served.words, served.logprobs) == (cold.words, cold.logprobs)
        assert len(set(served.logprobs)) > 1, "an answer that never changes would always be equal"
