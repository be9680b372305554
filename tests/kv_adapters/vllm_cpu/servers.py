"""The vLLM command of the documentation, as a user runs it, with a small model that it computes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
from prometheus_client.parser import text_string_to_metric_families

from shared.vllm_servers import prompt as prompt_tokens
from shared.vllm_servers import write_model
from tests.kv_adapters.running import documented_command, free_ports

HOSTS: Final = 2
QUICK_START: Final = "--host 127.0.0.1 --enforce-eager --max-model-len 2048 --dtype float32"
"""What makes a small model start quickly; nothing here concerns the connector."""
ENVIRONMENT: Final = {
    "PYTHONPATH": "",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
"""Of a server in a test."""
_POLL_S: Final = 0.3


def prompt(step: int, words: int) -> str:
    """A prompt of so many tokens; those of different steps have no prefix in common."""
    return " ".join(f"w{token}" for token in prompt_tokens(step, words))


class Servers:
    """``vllm serve`` on each host of one run.

    Attributes:
        output: the file with what the run has printed.
    """

    def __init__(self, run: subprocess.Popen[bytes], model: Path, port: int, output: Path) -> None:
        """The servers' ports begin at ``port``; innet's metrics are at the one behind them."""
        self._run = run
        self._model = model
        self._port = port
        self.output = output

    def wait_until_ready(self, host: int, *, first_start: bool = False) -> None:
        """Wait until a host's server answers; at its first start it must not fail before."""
        while not self._is_ready(host):
            output = self.output.read_text()
            assert self._run.poll() is None, output[-5000:]
            assert not first_start or "starting it anew" not in output, output[-5000:]
            threading.Event().wait(_POLL_S)

    def answer(self, host: int, prompt: str) -> str:
        """The 16 tokens that the model says after a prompt."""
        request = {
            "model": str(self._model),
            "prompt": prompt,
            "max_tokens": 16,
            "temperature": 0,
            "ignore_eos": True,
        }
        answer = json.loads(self._get(host, "/v1/completions", json.dumps(request).encode()))
        text: str = answer["choices"][0]["text"]
        return text

    def loaded_tokens(self, host: int) -> int:
        """Tokens that a server has loaded from the pool, by its own account."""
        for line in self._get(host, "/metrics").splitlines():
            if line.startswith("vllm:external_prefix_cache_hits_total{"):
                return int(float(line.rsplit(" ", 1)[1]))
        raise AssertionError("vLLM counts no hits of external caches")

    def wait_until_stored(self, host: int, objects: int) -> None:
        """Wait until a server's process has brought so many objects to their homes."""
        while self.metric("innet_kv_stored_total", node=f"h{host}") < objects:
            threading.Event().wait(_POLL_S)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of innet's samples with that name and those labels."""
        found = 0.0
        for family in text_string_to_metric_families(self._get(HOSTS, "/metrics")):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    found += sample.value
        return found

    def process(self, host: int) -> psutil.Process:
        """The process that ``innet run`` started on a host."""
        for child in psutil.Process(self._run.pid).children(recursive=True):
            if "serve" in child.cmdline() and f"{self._port + host}" in child.cmdline():
                return child
        raise AssertionError(f"no server of h{host} runs")

    def processes_of_engine(self, host: int) -> set[str]:
        """How vLLM calls the processes of its engine."""
        names = {child.name() for child in self.process(host).children(recursive=True)}
        return {name for name in names if name.startswith("VLLM::")}

    def close(self) -> None:
        """End the run as Ctrl-C does."""
        self._run.send_signal(signal.SIGINT)
        self._run.wait()

    def _is_ready(self, host: int) -> bool:
        try:
            self._get(host, "/health")
        except OSError:
            return False
        return True

    def _get(self, host: int, path: str, body: bytes | None = None) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port + host}{path}", body)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            text: str = answer.read().decode()
        return text


@contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    """The documented command, with the small model and free ports."""
    model, output = folder / "model", folder / "output"
    write_model(model)
    port = free_ports(HOSTS + 1)
    command = documented_command("vLLM")
    for documented, tested in (
        ("innet run", f"{sys.executable} -m innet run --metrics-port {port + HOSTS}"),
        ("meta-llama/Llama-3.1-8B", str(model)),
        ("--port 800$RANK", f"--port $(({port} + RANK)) {QUICK_START}"),
    ):
        assert documented in command
        command = command.replace(documented, tested)
    with ExitStack() as stack:
        run = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command.strip()}"],
            stdin=subprocess.DEVNULL,
            stdout=stack.enter_context(output.open("wb")),
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT},
            start_new_session=True,
        )
        servers = Servers(run, model, port, output)
        stack.callback(servers.close)
        for host in range(HOSTS):
            servers.wait_until_ready(host, first_start=True)
        yield servers
