"""Time to a prompt's first token: computed, and with keys and values loaded from a pool.

python benchmarks/kv_first_token.py --device cuda --models 1b 8b --tokens 1024 4096 16384 --json
python benchmarks/kv_first_token.py --device cuda --rate 10gbit --json

A Llama with random weights in bf16 is on one host, and the pool's memory on another. Without a
rate, their link is shared memory; with one, hosts are network namespaces, and the kernel limits the
link.
A prompt is computed as a whole, and as its last block behind a loaded prefix; outputs are compared
with those of the same prompt computed in the same two pieces, to the bit.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import innet
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps
from innet.topology import parse_yaml
from shared.benchmark import (
    Benchmark,
    Figures,
    argument_parser,
    measured_by_workers,
    quantity,
    report,
    worker_arguments,
)

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, LlamaForCausalLM

    from innet.kv.layout import KVArray

BLOCK_TOKENS = 128
LAYERS_PER_BLOCK = 4
"""Of the pool whose layers are used as they arrive."""
VOCABULARY = 32000
TOPOLOGY = """
name: two-hosts
topology:
  nodes: {h0: {kind: host, cache: 0B}, h1: {kind: host, cache: 0B}}
  links: [{endpoints: ["h0:eth0", "h1:eth0"]}]
"""


@dataclass(frozen=True)
class Size:
    """Of a model: the shapes are those of Llama 3.2 1B and Llama 3.1 8B."""

    layers: int
    width: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int


SIZES = {
    "tiny": Size(4, 128, 256, 4, 2, 32),
    "1b": Size(16, 2048, 8192, 32, 8, 64),
    "8b": Size(32, 4096, 14336, 32, 8, 128),
}


def main() -> None:
    """Measure and print."""
    given = worker_arguments()
    if given is not None:
        device, models, tokens, turns = given
        prompts = [int(each) for each in tokens.split(",")]
        _measure(device, models.split(","), prompts, int(turns))
        return
    arguments = _arguments()
    benchmark = Benchmark("kv_first_token", arguments, deadline_s=600)

    async def measure(_progress: ProgressBar) -> Figures:
        shared = arguments.rate is None
        links = parse_yaml(TOPOLOGY).with_overrides(
            rate_bps=arguments.rate, mtu_bytes=65000 if shared else 1500
        )
        return await measured_by_workers(
            __file__,
            (
                arguments.device,
                ",".join(arguments.models),
                ",".join(map(str, arguments.tokens)),
                arguments.turns,
            ),
            links,
            mode="local" if shared else "netns",
        )

    benchmark.run(measure)


def _arguments() -> argparse.Namespace:
    parser = argument_parser("time to a prompt's first token, computed and loaded from a pool")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--models", nargs="+", choices=SIZES, default=["tiny"])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024], help="of the prompts")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), help="of the link; default: none")
    parser.add_argument("--turns", type=int, default=5, help="default %(default)s")
    arguments = parser.parse_args()
    if importlib.util.find_spec("transformers") is None:
        print("left out: transformers is not installed (pip install 'innet[serving]')")
        sys.exit(0)
    if arguments.quick:
        arguments.turns = 2
    return arguments


def _measure(device: str, models: list[str], prompts: list[int], turns: int) -> None:
    """Rank 0 has the pool's memory, rank 1 the model."""
    comm = innet.init()
    if comm.rank == 0:
        from innet.kv.pool_member import PoolMember

        with PoolMember.open(offered_memory="16GiB", memory=0, tenant="contest"):
            comm.barrier()
            comm.barrier(timeout_s=600)
        return
    figures: Figures = {}
    comm.barrier()
    for name in models:
        requests = Requests(name, device)
        for tokens in prompts:
            for key, value in requests.measured(tokens, turns).items():
                figures[f"{key}_{name}_{tokens}"] = value
        requests.close()
    report(figures)
    comm.barrier(timeout_s=600)


class Requests:
    """A model and its pools, and the ways to a prompt's first token.

    Args:
        size: key of :data:`SIZES`.
        device: of the model.
    """

    def __init__(self, size: str, device: str) -> None:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        from innet.kv.model import ModelIdentity

        shape = SIZES[size]
        self._device = torch.device(device)
        self._config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=shape.width,
            intermediate_size=shape.inner,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            max_position_embeddings=1 << 17,
            dtype="bfloat16",
        )
        torch.manual_seed(1)
        torch.set_default_dtype(torch.bfloat16)
        with self._device:
            self._model: LlamaForCausalLM = LlamaForCausalLM(self._config).eval()
        torch.set_default_dtype(torch.float32)
        identity = ModelIdentity.of_transformers(self._model, weights=f"random-{size}@1")
        from innet.kv.pool_member import PoolMember

        self._member = PoolMember.open(memory=0, offered_memory=0, tenant="contest", timeout_s=30.0)
        self._pool, self._by_layer = (
            innet.KVPool(
                identity, block_tokens=BLOCK_TOKENS, layers_per_block=layers, member=self._member
            )
            for layers in (None, LAYERS_PER_BLOCK)
        )
        self._pool.blocking.members(1)

    def close(self) -> None:
        """Leave the pool, and free the model's memory."""
        self._pool.close()
        self._by_layer.close()
        self._member.close()
        del self._model

    def measured(self, tokens: int, turns: int) -> Figures:
        """Medians and extremes of all ways."""
        import torch

        prompt = torch.randint(VOCABULARY, (tokens,), generator=torch.Generator().manual_seed(2))
        ids = prompt.numpy()
        figures = self._put(ids)
        expected = self._in_two_pieces(ids)
        self._room = self._pinned(tokens)
        ways: dict[str, Callable[[npt.NDArray[Any]], torch.Tensor]] = {
            "computed": self._computed,
            "loaded": self._loaded,
            "loaded_pinned": self._loaded_pinned,
            "loaded_by_layer": self._loaded_by_layer,
        }
        times_s: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(1 + turns):
            for name, way in ways.items():
                self._synchronize()
                began_s = time.perf_counter()
                scores = way(ids)
                scores.argmax(-1).item()
                taken_s = time.perf_counter() - began_s
                if turn > 0:
                    times_s[name].append(taken_s)
                if name != "computed":
                    assert torch.equal(scores, expected), f"{name} gives other scores"
        for name, found_s in times_s.items():
            figures[f"{name}_s"] = statistics.median(found_s)
            figures[f"{name}_min_s"], figures[f"{name}_max_s"] = min(found_s), max(found_s)
        figures |= self._parts(ids)
        return figures

    def _put(self, ids: npt.NDArray[Any]) -> Figures:
        """Put the prompt into both pools; times of the copy from the device, and of one put."""
        from innet.kv.transformers_cache import keys_and_values

        cache = self._cache()
        self._forward(ids, cache)
        figures: Figures = {}
        for turn in range(2):  # the first copy allocates pinned memory
            self._synchronize()
            began_s = time.perf_counter()
            states = keys_and_values(cache)
            figures["copy_out_s"] = time.perf_counter() - began_s
            if turn == 0:
                del states
        began_s = time.perf_counter()
        put = self._pool.blocking.put(ids, states)
        figures["put_s"] = time.perf_counter() - began_s
        assert put == len(ids) // BLOCK_TOKENS * BLOCK_TOKENS, f"{put} tokens were put"
        assert self._by_layer.blocking.put(ids, states) == put
        figures["prefix_MB"] = self._pool.layout.token_bytes * put / 1e6
        return figures

    def _parts(self, ids: npt.NDArray[Any]) -> Figures:
        """The parts of a load: from the pool, to the device from usual and from pinned memory."""
        from innet.kv.transformers_cache import cache_with

        figures: Figures = {}
        began_s = time.perf_counter()
        found, kv = self._pool.blocking.get_longest_prefix(ids[:-1])
        figures["get_s"] = time.perf_counter() - began_s
        began_s = time.perf_counter()
        self._pool.blocking.load_prefix(ids[:-1], self._room)
        figures["get_pinned_s"] = time.perf_counter() - began_s
        for name, source in (("copy_in", kv), ("copy_in_pinned", self._room[:, :, :found])):
            self._synchronize()
            began_s = time.perf_counter()
            cache_with(source, self._config, self._device)
            self._synchronize()
            figures[f"{name}_s"] = time.perf_counter() - began_s
        return figures

    def _computed(self, ids: npt.NDArray[Any]) -> torch.Tensor:
        return self._forward(ids, self._cache())

    def _in_two_pieces(self, ids: npt.NDArray[Any]) -> torch.Tensor:
        cache = self._cache()
        cut = (len(ids) - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        self._forward(ids[:cut], cache)
        return self._forward(ids[cut:], cache)

    def _loaded(self, ids: npt.NDArray[Any]) -> torch.Tensor:
        from innet.kv.transformers_cache import cache_with

        found, kv = self._pool.blocking.get_longest_prefix(ids[:-1])
        return self._forward(ids[found:], cache_with(kv, self._config, self._device))

    def _loaded_pinned(self, ids: npt.NDArray[Any]) -> torch.Tensor:
        from innet.kv.transformers_cache import cache_with

        found = self._pool.blocking.load_prefix(ids[:-1], self._room)
        kv = self._room[:, :, :found]
        return self._forward(ids[found:], cache_with(kv, self._config, self._device))

    def _loaded_by_layer(self, ids: npt.NDArray[Any]) -> torch.Tensor:
        from innet.kv.transformers_cache import arriving_cache

        parts = self._by_layer.blocking.layers(ids[:-1])
        cache = arriving_cache(parts, self._config.num_hidden_layers)
        assert cache is not None, "the prefix was not found"
        return self._forward(ids[cache.get_seq_length() :], cache)

    def _forward(self, ids: npt.NDArray[Any], cache: DynamicCache) -> torch.Tensor:
        import torch

        given = torch.from_numpy(ids)[None].to(self._device)
        with torch.no_grad():
            output = self._model(
                input_ids=given, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
        scores: torch.Tensor = output.logits[0, -1]
        return scores

    def _cache(self) -> DynamicCache:
        from transformers import DynamicCache

        return DynamicCache(config=self._config)

    def _pinned(self, tokens: int) -> KVArray:
        import torch

        from innet.torch_backend.tensors import as_array

        shape = self._pool.layout.empty(0).shape
        room = torch.empty(
            (*shape[:2], tokens, *shape[3:]),
            dtype=torch.bfloat16,
            pin_memory=self._device.type == "cuda",
        )
        return np.asarray(as_array(room))

    def _synchronize(self) -> None:
        import torch

        if self._device.type == "cuda":
            torch.cuda.synchronize()


if __name__ == "__main__":
    main()
