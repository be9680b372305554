"""LMCache inside vLLM and beside it, by the documented commands, over a pool of two hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
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
WINDOW_CHUNKS = 2
"""Chunks that a window of 300 tokens covers, of layers that have one."""
SMALL = {"max_local_cpu_size": 0.1}
"""Settings of a small LMCache."""
STAND_IN = "tests.kv_adapters.vllm_cpu.lmcache_on_processor"
POLL_S = 0.3


def environment(host: str) -> dict[str, str]:
    """Of LMCache's and vLLM's processes at a host."""
    return {
        **os.environ,
        **ENVIRONMENT,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "INNET_HOST": host,
        "LMCACHE_TRACK_USAGE": "false",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",  # logprobs would call a compiler for C++
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }


def changed(command: str, changes: dict[str, str]) -> str:
    """A documented command with what differs in a test."""
    for documented, tested in changes.items():
        assert documented in command
        command = command.replace(documented, tested)
    return command


@contextmanager
def running(
    pool: Pool, host: str, label: str, command: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A command at a host, and the file with its output."""
    folder = pool.secret.parent
    output = folder / f"{label}-{host}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec env {command}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(host),
            start_new_session=True,
        )
    try:
        yield process, output
    finally:
        process.terminate()
        process.wait()


@contextmanager
def serving(
    pool: Pool, host: str, port: int, model: Path, command: str, changes: dict[str, str]
) -> Iterator[Server]:
    """vLLM at a host, by a documented command."""
    arguments = f"{model} --host 127.0.0.1 --port {port} {QUICK_START}"
    tested = changed(command, {"MODEL": arguments, **changes})
    with running(pool, host, "vllm", tested) as (process, output):
        yield Server(process, port, model, output)


@contextmanager
def with_lmcache_inside(pool: Pool, host: str, port: int, model: Path) -> Iterator[Server]:
    """vLLM with LMCache in its worker, and the stand-in for LMCache's copies to a GPU."""
    options = {"address": pool.name, "secret": str(pool.secret)}
    (pool.secret.parent / "lmcache.yaml").write_text(documented_lmcache_file(SMALL, **options))
    command = documented_command("LMCache", "LMCACHE_CONFIG_FILE=lmcache.yaml vllm serve")
    changes = {'"kv_role"': f'"kv_connector_module_path": "{STAND_IN}", "kv_role"'}
    with serving(pool, host, port, model, command, changes) as server:
        yield server


@contextmanager
def with_lmcache_beside(pool: Pool, host: str, port: int, model: Path) -> Iterator[Server]:
    """vLLM and LMCache's server, as they are."""
    own = free_ports(2)
    command = documented_command("LMCache", "lmcache server")
    changes = {
        "lmcache server": f"{sys.executable} -m lmcache.cli.main server",
        "--port 5555": f"--port {own}",
        "--http-port 8080": f"--http-port {own + 1}",
        "--l1-size-gb 8": "--l1-size-gb 0.1 --separate-object-groups",
        '"prod"': f'"{pool.name}"',
        "acme.secret": str(pool.secret),
    }
    with running(pool, host, "lmcache", changed(command, changes)) as (process, output):
        while not answers(own + 1):
            assert process.poll() is None, output.read_text()[-5000:]
            threading.Event().wait(POLL_S)
        command = documented_command("LMCache", "vllm serve")
        with serving(pool, host, port, model, command, {"5555": str(own)}) as server:
            yield server


def answers(port: int) -> bool:
    """Whether LMCache's server is up."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthcheck"):
        return True
    return False


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


write_windows = partial(write_window_model, window=300)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("serve", "write", "stored", "loaded"),
    [
        (with_lmcache_inside, write_model, CHUNKS, CHUNKS),
        (with_lmcache_inside, write_windows, CHUNKS, CHUNKS),
        (with_lmcache_beside, write_windows, 2 * CHUNKS, CHUNKS + WINDOW_CHUNKS),
    ],
    ids=["inside", "inside, sliding windows", "beside, sliding windows"],
)
def test_a_host_loads_what_another_computed_and_answers_the_same(
    tmp_path: Path,
    serve: Callable[[Pool, str, int, Path], AbstractContextManager[Server]],
    write: Callable[[Path], None],
    stored: int,
    loaded: int,
) -> None:
    model, port = tmp_path / "model", free_ports(2)
    write(model)
    with (
        standing_pool(tmp_path, engines=1) as pool,
        serve(pool, "h0", port, model) as one,
        serve(pool, "h1", port + 1, model) as other,
    ):
        one.wait_until_ready()
        cold = one.complete(prompt(7, TOKENS))
        while metric(pool, "innet_kv_stored_total", node="h0.1", engine="lmcache") < stored:
            threading.Event().wait(POLL_S)
        other.wait_until_ready()
        served = other.complete(prompt(7, TOKENS))
        assert (one.loaded_tokens, other.loaded_tokens) == (0, CHUNKS * 256)
        assert metric(pool, "innet_kv_hits_total", node="h1.1", engine="lmcache") == loaded
        assert (served.words, served.logprobs) == (cold.words, cold.logprobs)
        assert len(set(served.logprobs)) > 1, "an answer that never changes would always be equal"
