"""The SGLang commands of the documentation, with a small model that they compute on a processor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
from prometheus_client.parser import text_string_to_metric_families

from shared.vllm_servers import prompt as prompt_tokens
from shared.vllm_servers import write_model
from tests.kv_adapters.running import documented_command, free_ports

LAUNCH: Final = "python -m sglang.launch_server"
HOSTS: Final = 2
PAGE: Final = 64
"""Tokens of a page in the documented commands."""
TOKENS: Final = 600
LOADABLE: Final = (TOKENS - 1) // PAGE * PAGE
"""Tokens of a prompt that an engine can load: it has to compute the last one."""
_ROOT: Final = Path(__file__).parents[3]
_QUICK_START: Final = (
    "--host 127.0.0.1 --device cpu --dtype float32 --attention-backend torch_native "
    "--sampling-backend pytorch --grammar-backend none --max-total-tokens 8192 --sleep-on-idle "
    "--enable-cache-report --hicache-storage-prefetch-policy wait_complete "
    "--hicache-io-backend direct"
)
ENVIRONMENT: Final = {
    "PYTHONPATH": f"{Path(__file__).with_name('site')}:{_ROOT}",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    # SGLang compiles a hash function when it first computes one.
    "TORCH_EXTENSIONS_DIR": f"{sys.prefix}/torch-extensions",
}
"""Of a server in a test."""
_POLL_S: Final = 0.2
_RESTARTS: Final = "starting it anew"
"""In what ``innet run --serve`` prints of a server that has ended."""


class Answer(NamedTuple):
    """Of a prompt: the likeliest tokens, their logprobs, and where its prefix was."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    cached: int
    loaded: int


class Server:
    """One server; its process may be another's child.

    Attributes:
        port: at which it listens.
    """

    def __init__(self, port: int) -> None:
        self.port = port

    def is_ready(self) -> bool:
        """Whether it has answered a request of its own."""
        try:
            self._get("/health")
        except OSError:
            return False
        return True

    def answer(self, step: int) -> Answer:
        """16 tokens after the prompt of a step, which differs from the others' in its first."""
        request = {
            "input_ids": prompt_tokens(step, TOKENS),
            "sampling_params": {"temperature": 0, "max_new_tokens": 16, "ignore_eos": True},
            "return_logprob": True,
        }
        told = json.loads(self._get("/generate", request))["meta_info"]
        logprobs, tokens, _ = zip(*told["output_token_logprobs"], strict=True)
        details = told["cached_tokens_details"] or {}
        return Answer(tokens, logprobs, told["cached_tokens"], details.get("storage", 0))

    def drop_caches(self) -> None:
        """Drop what the server has in its device's and its host's cache."""
        while True:
            try:
                self._get("/flush_cache", {})
                return
            except urllib.error.HTTPError:  # while it writes to the pool
                threading.Event().wait(_POLL_S)

    def _get(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            text: str = answer.read().decode()
        return text


class Servers:
    """``python -m sglang.launch_server`` on each host of one network.

    Attributes:
        servers: by host.
        processes: that run them, or run what starts them.
    """

    def __init__(self, port: int, folder: Path) -> None:
        """The servers' ports begin at ``port``; innet's metrics are at the one behind them."""
        self.servers = [Server(port + host) for host in range(HOSTS)]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.output = folder / "output"
        self._metrics = f"http://127.0.0.1:{port + HOSTS}/metrics"

    def start(self, command: str, **env: str) -> None:
        """Run a command of the shell in the servers' folder."""
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command.strip()}"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **ENVIRONMENT, **env}, cwd=self.output.parent,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)

    def wait_until_ready(self, host: int) -> Server:
        """Wait until a host's server answers, which is restarted once at most meanwhile."""
        restarts = self._restarts()
        while not self.servers[host].is_ready():
            assert all(each.poll() is None for each in self.processes), self.output.read_text()
            assert self._restarts() < restarts + 2, self.output.read_text()
            threading.Event().wait(_POLL_S)
        return self.servers[host]

    def _restarts(self) -> int:
        return self.output.read_text().count(_RESTARTS)

    def wait_until_stored(self, host: int, pages: int) -> None:
        """Wait until a server's process has brought so many pages to their homes."""
        while self.metric("innet_kv_stored_total", node=f"h{host}") < pages:
            threading.Event().wait(_POLL_S)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of innet's samples with that name and those labels."""
        with urllib.request.urlopen(self._metrics) as answer:
            text = answer.read().decode()
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def process(self, host: int) -> psutil.Process:
        """The process of a host's server, and not those that it has started."""
        port = str(self.servers[host].port)
        for started in self.processes:
            process = psutil.Process(started.pid)
            for each in (process, *process.children(recursive=True)):
                arguments = each.cmdline()
                if arguments[1:3] == LAUNCH.split()[1:] and port in arguments:
                    return each
        raise AssertionError(f"no server of h{host} runs")

    def close(self) -> None:
        """End what was started as Ctrl-C does."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.wait()


@contextmanager
def run_of_servers(folder: Path) -> Iterator[Servers]:
    """The documented command that runs a server on each of two hosts."""
    port = free_ports(HOSTS + 1)
    command = documented_command("SGLang")
    for documented, tested in (
        ("innet run", f"{sys.executable} -m innet run --metrics-port {port + HOSTS}"),
        ("--model-path MODEL", f"--model-path {folder}/model"),
        ("--port 3000$RANK", f"--port $(({port} + RANK)) {_processor('layer_first')}"),
    ):
        assert documented in command
        command = command.replace(documented, tested)
    write_model(folder / "model")
    with closing(Servers(port, folder)) as servers:
        servers.start(command)
        for host in range(HOSTS):
            servers.wait_until_ready(host)
        yield servers


class ServersAtAPool(Servers):
    """The documented command on each host of a standing pool."""

    def __init__(self, folder: Path) -> None:
        super().__init__(free_ports(HOSTS), folder)
        self._model = folder / "model"
        write_model(self._model)

    def serve(self, host: int) -> None:
        """Start a host's server, with which each load crosses the network."""
        command = documented_command("SGLang", LAUNCH)
        port = self.servers[host].port
        for documented, tested in (
            ("MODEL", f"{self._model} --port {port} {_processor('page_first_direct')}"),
            ('"acme.secret"}', '"acme.secret", "memory": 0}'),
        ):
            assert documented in command
            command = command.replace(documented, tested)
        self.start(command, INNET_HOST=f"h{host}")

    def kill(self, host: int) -> None:
        """Kill a host's server; its other processes end with it."""
        process = self.process(host)
        others = process.children(recursive=True)
        process.kill()
        (killed,) = (each for each in self.processes if each.pid == process.pid)
        self.processes.remove(killed)
        killed.wait()
        psutil.wait_procs(others)


def _processor(layout: str) -> str:
    """What a processor needs, and makes the small model start quickly."""
    return f"{_QUICK_START} --hicache-mem-layout {layout}"
