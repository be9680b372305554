"""vLLM without a model: its own scheduler, and a worker whose layers are arithmetic.

What a layer leaves in the cache for a token depends on the layer and on all tokens up to that one,
as with a model, so that a block in the wrong place or of another prompt is seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.forward_context import ForwardContext
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

BLOCK = 4
CHUNK = 8
LAYERS = [f"model.layers.{index}.self_attn.attn" for index in range(12)]
DRAFT = "draft_model.layers.0.self_attn.attn"
"""Of a draft model: it is computed behind the others, and its name comes before theirs."""
STATES = ["model.layers.12.mixer", "model.layers.13.mixer"]
"""Of state-space layers."""
BLOCKS = 64
PROMPT = [(7 * place) % 500 for place in range(4 * CHUNK + BLOCK + 1)]
"""Four chunks, a block and a token."""
_HEADS, _HEAD_DIM = 2, 4
_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": _HEADS,
    "num_hidden_layers": len(LAYERS),
    "vocab_size": 1000,
    "max_position_embeddings": 256,
}


def write_model(folder: Path) -> None:
    """A model whose weights nobody loads."""
    (folder / "config.json").write_text(json.dumps(_LLAMA))
    (folder / "pytorch_model.bin").write_bytes(b"weights")


def make_config(folder: Path, **options: Any) -> VllmConfig:
    """vLLM's configuration of the model in ``folder``, with options of the connector."""
    connector = {"chunk_tokens": CHUNK, "layers_per_object": 5, **options}
    return VllmConfig(
        model_config=ModelConfig(
            model=str(folder), skip_tokenizer_init=True, dtype="bfloat16", enforce_eager=True
        ),
        cache_config=CacheConfig(block_size=BLOCK, prefix_caching_hash_algo="sha256_cbor"),
        scheduler_config=SchedulerConfig(
            max_num_seqs=8, max_num_batched_tokens=64, max_model_len=256, is_encoder_decoder=False
        ),
        device_config=DeviceConfig("cpu"),
        kv_transfer_config=KVTransferConfig(
            kv_connector="InnetConnector",
            kv_connector_module_path="innet.kv.adapters.vllm",
            kv_role="kv_both",
            kv_load_failure_policy="recompute",
            kv_connector_extra_config=connector,
        ),
    )


def cache_config(
    window: int = 0, window_layers: int = 0, *, block: int = BLOCK, window_block: int = BLOCK
) -> KVCacheConfig:
    """vLLM's configuration of the cache, with a sliding window in the last layers of each four.

    Args:
        window: its tokens.
        window_layers: of each four.
        block: tokens of a block of layers with full attention.
        window_block: of layers with a window.
    """
    shape = {
        "num_kv_heads": _HEADS,
        "head_size": _HEAD_DIM,
        "dtype": torch.bfloat16,
    }
    groups = []
    if full := [layer for place, layer in enumerate(LAYERS) if place % 4 < 4 - window_layers]:
        groups.append(KVCacheGroupSpec(full, FullAttentionSpec(block_size=block, **shape)))
    if rest := [layer for layer in LAYERS if layer not in full]:
        spec = SlidingWindowSpec(block_size=window_block, **shape, sliding_window=window)
        groups.append(KVCacheGroupSpec(rest, spec))
    return KVCacheConfig(
        num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups, hash_block_size=BLOCK
    )


def state_group(**options: Any) -> KVCacheGroupSpec:
    """vLLM's group of state-space layers, each with a state in two tensors."""
    shapes = ((_HEADS,), (2 * _HEAD_DIM,))
    spec = MambaSpec(
        block_size=BLOCK, shapes=shapes, dtypes=(torch.bfloat16,) * 2,
        **{"mamba_cache_mode": "align", **options},
    )  # fmt: skip
    return KVCacheGroupSpec(list(STATES), spec)


def expected(layer: int, tokens: list[int]) -> torch.Tensor:
    """What a layer leaves for a prompt's tokens: ``(tokens, heads, channels)``."""
    sums = torch.tensor(tokens).cumsum(0) * 7 + layer * 11
    channel = torch.arange(_HEADS * 2 * _HEAD_DIM).reshape(_HEADS, 2 * _HEAD_DIM)
    return ((sums[:, None, None] + channel * 3) % 251).bfloat16()


@dataclass
class Served:
    """What a request took.

    Attributes:
        computed_tokens: that the worker computed.
        is_right: whether the cache has what it should, for each token of the prompt.
        failed_blocks: that the connector said had failed to load.
    """

    computed_tokens: int
    is_right: bool
    failed_blocks: int


class Engine:
    """A scheduler and a worker, with a side of the connector each.

    Args:
        config: vLLM's.
        cache: vLLM's, of the cache; by default that of full attention in all layers.
        built: vLLM's configuration in the worker, which has built the model; by default the same.
    """

    def __init__(
        self,
        config: VllmConfig,
        cache: KVCacheConfig | None = None,
        built: VllmConfig | None = None,
    ) -> None:
        self._hash = get_hash_fn_by_name(config.cache_config.prefix_caching_hash_algo)
        init_none_hash(self._hash)
        cache = cache or cache_config()
        self._groups = cache.kv_cache_groups
        drafts = [layer for group in self._groups for layer in group.layer_names if layer == DRAFT]
        self._layers = [*LAYERS, *drafts]
        self._states = [
            name for group in self._groups for name in group.layer_names if name in STATES
        ]
        self._has_right_states = True
        config.cache_config.num_gpu_blocks = BLOCKS
        register_all_kvcache_specs(config)
        # As in vLLM: the worker's side before the scheduler's.
        self.worker = KVConnectorFactory.create_connector(
            built or config, KVConnectorRole.WORKER, cache
        )
        self.scheduler = Scheduler(
            vllm_config=config,
            kv_cache_config=cache,
            block_size=max(group.kv_cache_spec.block_size for group in self._groups),
            hash_block_size=BLOCK,
            structured_output_manager=StructuredOutputManager(config),
        )
        # Blocks, heads, tokens, channels; in memory, tokens come before heads.
        self.caches = {
            layer: torch.full(
                (BLOCKS, group.kv_cache_spec.block_size, _HEADS, 2 * _HEAD_DIM),
                torch.nan,
                dtype=torch.bfloat16,
            ).permute(0, 2, 1, 3)
            for group in self._groups
            for layer in group.layer_names
            if layer in self._layers
        }
        self.states = {
            layer: [torch.full((BLOCKS, size), torch.nan, dtype=torch.bfloat16) for size in (2, 8)]
            for layer in self._states
        }
        self.worker.register_kv_caches({**self.caches, **self.states})
        told = {(0, 0): self.worker.get_handshake_metadata()}
        self.scheduler.get_kv_connector().set_xfer_handshake_metadata_pp_aware(told)
        self._requests = 0

    def serve(self, prompt: list[int], announced: str = "", **inputs: Any) -> Served:
        """Answer a prompt with one token.

        Args:
            prompt: its tokens.
            announced: the request's name for two engines.
            inputs: of vLLM's request, such as ``lora_request``.
        """
        self._requests += 1
        request = Request(
            request_id=str(self._requests),
            prompt_token_ids=prompt,
            sampling_params=SamplingParams(
                max_tokens=1,
                ignore_eos=True,
                extra_args={"kv_transfer_params": {"innet_request": announced}},
            ),
            pooling_params=None,
            block_hasher=get_request_block_hasher(BLOCK, self._hash),
            **inputs,
        )
        self.scheduler.add_request(request)
        computed, failed, is_right = 0, 0, False
        while self.scheduler.has_requests():
            output = self.scheduler.schedule()
            blocks = self._blocks_of(request)
            if any(blocks):
                held = blocks
            invalid = self._step(output, prompt, blocks)
            failed += len(invalid)
            computed += output.num_scheduled_tokens.get(request.request_id, 0)
            if output.num_scheduled_tokens and not invalid:
                is_right = self._is_right(prompt, held)
        return Served(computed, is_right, failed)

    def saved(self) -> None:
        """Wait until all that is saved has come to its homes."""
        self.worker.wait_until_saved()

    def close(self) -> None:
        self.worker.shutdown()
        self.scheduler.shutdown()

    def _blocks_of(self, request: Request) -> list[list[int]]:
        return list(self.scheduler.kv_cache_manager.get_block_ids(request.request_id))

    def _step(
        self, output: SchedulerOutput, prompt: list[int], blocks: list[list[int]]
    ) -> set[int]:
        """A step of vLLM's worker; blocks that failed to load."""
        self.worker.bind_connector_metadata(output.kv_connector_metadata)
        context = ForwardContext({}, {}, {})
        if output.has_sync_kv_loads:
            self.worker.start_load_kv(context)
        is_last = False
        for scheduled in output.num_scheduled_tokens.values():
            start = self._first_computed(output)
            is_last = start + scheduled >= len(prompt)
            for index, layer in enumerate(self._layers):
                self.worker.wait_for_layer_load(layer)
                self._compute(index, prompt, blocks, start, start + scheduled)
                self.worker.save_kv_layer(layer, self.caches[layer], None)
            for index, layer in enumerate(self._states):
                self._advance(layer, index, prompt, blocks, start, start + scheduled)
        if not output.has_sync_kv_loads:
            self.worker.start_load_kv(context)
        self.worker.wait_for_save()
        results = self.worker.get_transfer_results(output.finished_req_ids)
        invalid: set[int] = self.worker.get_block_ids_with_load_errors()
        self.worker.clear_connector_metadata()
        for cache in self.caches.values():
            assert cache[sorted(invalid)].isnan().all(), "what failed to load is in the cache"
        requests = list(output.num_scheduled_tokens)
        self.scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=requests,
                req_id_to_index={request: index for index, request in enumerate(requests)},
                sampled_token_ids=[[0] if is_last else [] for _ in requests],
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=None,
                kv_connector_output=KVConnectorOutput(
                    finished_recving=results.finished_recving,
                    failed_recving=results.failed_recving,
                    invalid_block_ids=invalid,
                    kv_connector_worker_meta=self.worker.build_connector_worker_meta(),
                ),
            ),
        )
        return invalid

    def _first_computed(self, output: SchedulerOutput) -> int:
        if output.scheduled_new_reqs:
            return int(output.scheduled_new_reqs[0].num_computed_tokens)
        return int(output.scheduled_cached_reqs.num_computed_tokens[0])

    def _compute(
        self, layer: int, prompt: list[int], blocks: list[list[int]], start: int, end: int
    ) -> None:
        values = expected(layer, prompt)
        ids, _ = self._blocks_of_layer(self._layers[layer], blocks)
        cache = self.caches[self._layers[layer]]
        size = cache.shape[2]
        for token in range(start, min(end, len(prompt))):
            assert ids[token // size], "vLLM computes into its null block"
            cache[ids[token // size], :, token % size] = values[token]

    def _advance(
        self,
        layer: str,
        index: int,
        prompt: list[int],
        blocks: list[list[int]],
        start: int,
        end: int,
    ) -> None:
        """Go from the state before a token to that before another one, in vLLM's blocks of them."""
        ids, _ = self._blocks_of_layer(layer, blocks)
        end = min(end, len(prompt))
        states = expected(100 + index, prompt)
        for cache, values in zip(self.states[layer], (states[:, :, 0], states[:, 0]), strict=True):
            if start and not torch.equal(cache[ids[(start - 1) // BLOCK]], values[start - 1]):
                self._has_right_states = False
            block = ids[(end - 1) // BLOCK]
            assert block, "vLLM computes into its null block"
            cache[block] = values[end - 1]

    def _is_right(self, prompt: list[int], blocks: list[list[int]]) -> bool:
        """Whether the next token finds what it attends to."""
        for index, layer in enumerate(self._layers):
            ids, window = self._blocks_of_layer(layer, blocks)
            rows = self.caches[layer][ids].permute(0, 2, 1, 3).flatten(0, 1)
            first = max(0, len(prompt) - window + 1) if window else 0
            if not torch.equal(rows[first : len(prompt)], expected(index, prompt)[first:]):
                return False
        return self._has_right_states

    def _blocks_of_layer(self, layer: str, blocks: list[list[int]]) -> tuple[list[int], int]:
        """The blocks of a layer's group, and its sliding window."""
        for group, ids in zip(self._groups, blocks, strict=True):
            if layer in group.layer_names:
                return ids, getattr(group.kv_cache_spec, "sliding_window", None) or 0
        raise AssertionError(f"{layer} is in no group")
