"""Models with several kinds of caches: full attention beside sliding windows, or windows alone."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: `make kv-adapters` tests with it")

import torch
from vllm.config import SpeculativeConfig, VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)

from innet.errors import KVError
from innet.kv.adapters.vllm import InnetConnector, connector
from innet.kv.adapters.vllm.cache_identity import CacheIdentity, ConnectorOptions
from innet.kv.adapters.vllm.chunk_lookup import ChunkLookup
from innet.kv.adapters.vllm.chunk_names import ChunkName
from innet.kv.names import BlockKey
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.vllm.conftest import MakeEngine
from tests.kv_adapters.vllm.engine import (
    BLOCK,
    CHUNK,
    DRAFT,
    PROMPT,
    Engine,
    cache_config,
    state_group,
    write_model,
)


@pytest.fixture(scope="module")
def config(config: VllmConfig) -> VllmConfig:
    """Its steps are shorter than a chunk."""
    config.scheduler_config.max_num_batched_tokens = CHUNK - 2
    return config


@pytest.fixture(
    params=[
        cache_config(CHUNK // 2, 2),
        cache_config(2 * CHUNK + 3, 3),
        cache_config(CHUNK // 2, 4),
        cache_config(CHUNK // 2, 2, window_block=CHUNK),
        cache_config(2 * CHUNK + 3, 3, block=CHUNK),
    ],
    ids=[
        "narrow window", "wide window", "windows alone", "long blocks of windows",
        "long blocks of full attention",
    ],
)  # fmt: skip
def engines(request: pytest.FixtureRequest, engine: MakeEngine) -> tuple[Engine, Engine]:
    """At hosts ``a`` and ``b``."""
    cache = request.param
    return engine("a", cache=cache), engine("b", cache=cache)


def test_another_engine_loads_what_its_groups_need(engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    computed = one.serve(PROMPT)
    assert computed.is_right
    assert computed.computed_tokens == len(PROMPT)
    one.saved()
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_prompt_that_goes_on_loads_behind_what_the_engine_has(
    engines: tuple[Engine, Engine],
) -> None:
    one, other = engines
    one.serve(PROMPT)
    one.saved()
    other.serve(PROMPT[: CHUNK + BLOCK])
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_poisoned_part_lets_the_whole_prompt_be_computed(
    engines: tuple[Engine, Engine], hosts: Hosts
) -> None:
    one, other = engines
    one.serve(PROMPT)
    one.saved()
    hosts.home.forges = True
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT)
    assert not served.failed_blocks, "vLLM ends when several groups report blocks"


NAMES = [ChunkName(bytes([chunk])) for chunk in range(5)]


@pytest.mark.parametrize(
    ("window", "missing", "chunks"),
    [
        (CHUNK, [], 5),
        (CHUNK, [("full", 3)], 3),
        (CHUNK, [("window", 4)], 4),
        (CHUNK, [("window", 0), ("window", 3)], 5),
        (2 * CHUNK, [("window", 3)], 3),
        (2 * CHUNK, [("window", 1), ("window", 3)], 1),
        (2 * CHUNK, [("window", 0), ("window", 2), ("full", 4)], 0),
    ],
)
def test_a_hit_needs_the_last_window_of_a_group_and_all_of_others(
    config: VllmConfig, window: int, missing: list[tuple[str, int]], chunks: int
) -> None:
    options = ConnectorOptions(chunk_tokens=CHUNK)
    cache = CacheIdentity(config, cache_config(window, 2), options, "ab" * 16)
    absent = {
        key
        for group, chunk in missing
        for key in (
            cache.dense_keys(NAMES[chunk])
            if group == "full"
            else cache.window_keys(NAMES[chunk], behind=1)
        )
    }

    def count_prefix(keys: Sequence[BlockKey], _wait: object) -> Future[int]:
        counted: Future[int] = Future()
        counted.set_result(next((n for n, key in enumerate(keys) if key in absent), len(keys)))
        return counted

    assert len(absent) == len(missing), "groups share no names"
    assert ChunkLookup(count_prefix, cache, NAMES, 0, None).end_chunk() == chunks


@pytest.mark.parametrize("present", [0, 100])
def test_missing_windows_of_a_long_prompt_take_few_lookups(
    config: VllmConfig, present: int
) -> None:
    options = ConnectorOptions(chunk_tokens=CHUNK)
    cache = CacheIdentity(config, cache_config(2 * CHUNK, 4), options, "ab" * 16)
    names = [ChunkName(chunk.to_bytes(2, "big")) for chunk in range(500)]
    held = {key for each in names[:present] for key in cache.window_keys(each, behind=1)}
    lookups = 0

    def count_prefix(keys: Sequence[BlockKey], _wait: object) -> Future[int]:
        nonlocal lookups
        lookups += 1
        counted: Future[int] = Future()
        counted.set_result(next((n for n, key in enumerate(keys) if key not in held), len(keys)))
        return counted

    end = ChunkLookup(count_prefix, cache, names, 0, None).end_chunk()
    assert end is not None
    assert end in range(3 * present // 4, present + 1)
    assert lookups <= 32


def test_a_draft_models_layers_are_saved_when_they_are_computed(
    engine: MakeEngine,
) -> None:
    cache = cache_config()
    cache.kv_cache_groups[0].layer_names.append(DRAFT)
    one, other = engine("a", cache=cache), engine("b", cache=cache)
    one.serve(PROMPT)
    one.saved()
    served = other.serve(PROMPT)
    assert (served.is_right, served.computed_tokens) == (True, len(PROMPT) - 4 * CHUNK)


def test_blocks_are_shared_with_the_same_draft_model_alone(
    config: VllmConfig, tmp_path: Path
) -> None:
    def speculating(name: str, weights: bytes = b"weights") -> str:
        """The digest of a server's blocks."""
        own, cache = deepcopy(config), cache_config()
        method = {"method": "ngram", "prompt_lookup_max": 3}
        if name != "ngram":
            draft = tmp_path / name
            draft.mkdir()
            write_model(draft)
            (draft / "pytorch_model.bin").write_bytes(weights)
            method = {"method": "draft_model", "model": str(draft)}
            cache.kv_cache_groups[0].layer_names.append(DRAFT)
        own.speculative_config = SpeculativeConfig(
            target_model_config=own.model_config,
            target_parallel_config=own.parallel_config,
            num_speculative_tokens=2,
            **method,
        )
        return digest(own, cache)

    def digest(own: VllmConfig, cache: KVCacheConfig) -> str:
        identity = CacheIdentity(own, cache, ConnectorOptions(chunk_tokens=CHUNK), "ab" * 16)
        return identity.spans[0].families[0].model_digest

    alone, drafted = digest(config, cache_config()), speculating("one")
    assert speculating("ngram") == alone, "it has no cache of its own"
    assert speculating("same") == drafted
    assert len({alone, drafted, speculating("tuned", b"tuned weights")}) == 3


@pytest.mark.parametrize("window_layers", [0, 2], ids=["full attention", "and windows"])
def test_states_are_loaded_at_the_end_of_a_prefix(
    config: VllmConfig, engine: MakeEngine, window_layers: int
) -> None:
    own = deepcopy(config)
    own.cache_config.mamba_cache_mode = "align"
    own.scheduler_config.max_num_batched_tokens = CHUNK + 2  # vLLM's steps end at a block's end
    cache = cache_config(CHUNK // 2, window_layers)
    cache.kv_cache_groups.append(state_group())
    one, other = engine("a", own, cache), engine("b", own, cache)
    assert one.serve(PROMPT).is_right
    one.saved()
    served = other.serve(PROMPT)
    assert (served.is_right, served.computed_tokens) == (True, len(PROMPT) - 4 * CHUNK)
    longer = [*PROMPT[: 3 * CHUNK], *range(CHUNK)]
    served = other.serve(longer)
    assert served.is_right


@pytest.mark.parametrize("options", [{"mamba_cache_mode": "all"}, {"num_speculative_blocks": 1}])
def test_states_at_other_places_are_refused(
    config: VllmConfig, hosts: Hosts, options: dict[str, Any]
) -> None:
    cache = cache_config()
    cache.kv_cache_groups.append(state_group(**options))
    with hosts.at("a", connector), pytest.raises(KVError, match="--mamba-cache-mode align"):
        InnetConnector(config, KVConnectorRole.WORKER, cache)


def test_other_caches_are_refused(config: VllmConfig, hosts: Hosts) -> None:
    cache = cache_config()
    local = ChunkedLocalAttentionSpec(
        block_size=BLOCK, num_kv_heads=2, head_size=4, dtype=torch.bfloat16,
        attention_chunk_size=CHUNK,
    )  # fmt: skip
    cache.kv_cache_groups.append(KVCacheGroupSpec(["model.layers.12.attn"], local))
    with hosts.at("a", connector), pytest.raises(KVError, match="has a ChunkedLocal"):
        InnetConnector(config, KVConnectorRole.WORKER, cache)


def test_blocks_of_different_sizes_beside_states_are_refused(
    config: VllmConfig, hosts: Hosts
) -> None:
    own = deepcopy(config)
    own.cache_config.mamba_cache_mode = "align"
    cache = cache_config(CHUNK // 2, 2, window_block=CHUNK)
    cache.kv_cache_groups.append(state_group())
    with hosts.at("a", connector), pytest.raises(KVError, match="beside states"):
        InnetConnector(own, KVConnectorRole.WORKER, cache)
