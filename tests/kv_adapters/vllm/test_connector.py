"""vLLM's connector, loaded by vLLM and driven by its own scheduler, on two hosts."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

REASON = "vLLM is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("vllm", reason=REASON)

import torch
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole

from innet.errors import KVError
from innet.kv.adapters.vllm import InnetConnector, connector
from innet.kv.adapters.vllm.cache_identity import CacheIdentity, ConnectorOptions
from innet.kv.adapters.vllm.chunk_names import ChunkName
from innet.kv.events.index import PrefixIndex
from innet.kv.events.source import BlockEvents
from innet.kv.events.wire import decode
from innet.kv.names import BlockKey
from innet.kv.pool.network import Contents
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.vllm.conftest import MakeEngine
from tests.kv_adapters.vllm.engine import BLOCK, CHUNK, LAYERS, PROMPT, Engine, cache_config


@pytest.fixture(params=[False, True], ids=["layer by layer", "between steps"])
def engines(
    request: pytest.FixtureRequest, config: VllmConfig, engine: MakeEngine
) -> tuple[Engine, Engine]:
    """At hosts ``a`` and ``b``."""
    config.kv_transfer_config.kv_connector_extra_config["load_between_steps"] = request.param
    return engine("a"), engine("b")


def test_what_one_engine_computes_another_loads(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    assert one.serve(PROMPT).computed_tokens == len(PROMPT)
    one.saved()
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


@pytest.mark.parametrize("codec", ["fp8", "int8"])
def test_a_codec_quantises_objects_whose_names_tell_it(
    config: VllmConfig, engine: MakeEngine, codec: str
) -> None:
    coded = deepcopy(config)
    coded.kv_transfer_config.kv_connector_extra_config["codec"] = codec
    one, other = engine("a", coded), engine("b", coded)
    one.serve(PROMPT)
    one.saved()
    assert engine("b").serve(PROMPT).computed_tokens == len(PROMPT)
    assert other.serve(PROMPT).computed_tokens == len(PROMPT) - 4 * CHUNK
    for layer in LAYERS:
        found, given = other.caches[layer], one.caches[layer]
        assert not torch.equal(found, given)
        torch.testing.assert_close(found, given, rtol=1 / 14, atol=2.0, equal_nan=True)


def test_a_prompt_that_goes_on_otherwise_loads_what_is_common(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    one.serve(PROMPT)
    one.saved()
    prompt = PROMPT[: 2 * CHUNK] + [501] * CHUNK
    served = other.serve(prompt)
    assert served.is_right
    assert served.computed_tokens == len(prompt) - 2 * CHUNK


def test_events_have_the_tokens_of_chunks(
    config: VllmConfig, hosts: Hosts, engine: MakeEngine
) -> None:
    own = deepcopy(config)
    own.kv_transfer_config.kv_connector_extra_config["events"] = "run"
    events = BlockEvents("home")
    hosts.hosts["a"].events = events

    async def watch() -> None:
        hosts.hosts["home"].blocks.watch(events.on_tier)

    hosts.hosts["home"].submit(watch()).result()
    one = engine("a", own)
    one.serve(PROMPT)
    one.saved()
    [log] = events.streams.values()
    index = PrefixIndex()
    while (batch := log.cut(0.0)) is not None:
        index.apply("home", "m", decode(batch[1]).events)
    found = index.locate("m", PROMPT)
    assert (found.tokens, found.block_tokens) == (4 * CHUNK, CHUNK)
    assert found.holdings[0].member == "home"


def rank_of_two(config: VllmConfig, rank: int, **options: str) -> VllmConfig:
    """The configuration of a worker with half of the heads."""
    own = deepcopy(config)
    parallel = own.parallel_config
    parallel.tensor_parallel_size, parallel.world_size, parallel.rank = 2, 2, rank
    own.kv_transfer_config.kv_connector_extra_config |= options
    return own


def test_a_chunk_exists_once_all_tensor_parallel_ranks_have_saved_their_parts(
    config: VllmConfig, engine: MakeEngine
) -> None:
    standing = {"address": "prod", "secret": "acme.secret"}
    for rank in range(2):
        one = engine("a", rank_of_two(config, rank, **standing))
        one.serve(PROMPT)
        one.saved()
        served = engine("b", rank_of_two(config, 0, **standing)).serve(PROMPT)
        assert served.is_right
        loaded = 4 * CHUNK if rank else 0
        assert served.computed_tokens == len(PROMPT) - loaded, f"rank {rank} has saved its part"


def test_no_two_layouts_share_names(config: VllmConfig) -> None:
    def names(config: VllmConfig, chunk_tokens: int = CHUNK, **spec: Any) -> set[str]:
        cache = cache_config()
        [group] = cache.kv_cache_groups
        group.kv_cache_spec = replace(group.kv_cache_spec, **spec)
        options = ConnectorOptions(chunk_tokens=chunk_tokens, layers_per_object=5)
        identity = CacheIdentity(config, cache, options, "ab" * 16, has_address=True)
        return {identity.key(span, ChunkName(b"hash")).name for span in range(len(identity.spans))}

    layouts = [
        names(config),
        names(rank_of_two(config, 0)),
        names(rank_of_two(config, 1)),
        names(config, block_size=2 * BLOCK),
        names(config, dtype=torch.float16),
        names(config, chunk_tokens=2 * CHUNK),
    ]
    assert len(set.union(*layouts)) == sum(map(len, layouts)) == 6 * 3
    assert names(rank_of_two(config, 1)) == layouts[2], "after a restart as well"


def test_several_workers_need_a_standing_pool(config: VllmConfig, engine: MakeEngine) -> None:
    with pytest.raises(KVError, match="give address"):
        engine("a", rank_of_two(config, 0))


def test_layers_are_saved_once_and_while_later_ones_are_computed(
    hosts: Hosts, engines: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = engines
    blocks = hosts.hosts["a"].blocks
    put, wait = blocks.put, one.worker.wait_for_layer_load
    order: list[str] = []

    def note_put(key: BlockKey, contents: Contents, *, depth: int = 0) -> Coroutine[Any, Any, int]:
        order.append(key.family.layers)
        return put(key, contents, depth=depth)

    def note_layer(layer: str) -> None:
        order.append(layer)
        wait(layer)

    monkeypatch.setattr(blocks, "put", note_put)
    monkeypatch.setattr(one.worker, "wait_for_layer_load", note_layer)
    for first in range(2):  # a first step and a later one
        order.clear()
        one.serve(PROMPT[first:])
        one.saved()
        puts = [each for each in order if each not in LAYERS]
        assert puts == [layers for layers in ("0-4", "5-9", "10-11") for _ in range(4)]
        assert order.index("0-4") == order.index(LAYERS[5]) - 4
        assert order.index("5-9") == order.index(LAYERS[10]) - 4


def test_at_least_one_token_is_computed(hosts: Hosts, engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    prompt = PROMPT[: 2 * CHUNK]
    one.serve(prompt)
    one.saved()
    served = other.serve(prompt)
    assert served.is_right
    assert served.computed_tokens == CHUNK


def test_what_the_engine_has_itself_is_not_loaded_again(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    one.serve(PROMPT)
    one.saved()
    # A block more than a chunk: the second chunk is loaded without its first block.
    other.serve(PROMPT[: CHUNK + BLOCK])
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_poisoned_block_is_a_load_error_and_computed(
    hosts: Hosts, engines: tuple[Engine, Engine]
) -> None:
    one, other = engines
    one.serve(PROMPT)
    one.saved()
    hosts.home.forges = True
    served = other.serve(PROMPT)
    assert served.failed_blocks == 4 * CHUNK // BLOCK
    assert served.is_right
    assert served.computed_tokens >= len(PROMPT)


def test_a_home_out_of_reach_is_a_miss(hosts: Hosts, engines: tuple[Engine, Engine]) -> None:
    one, other = engines
    one.serve(PROMPT)
    one.saved()
    hosts.home.reachable = False
    served = other.serve(PROMPT)
    assert served.is_right
    assert served.computed_tokens == len(PROMPT)


@pytest.mark.parametrize("weights", ["", "fine-tuned"])
def test_other_weights_have_other_blocks(
    engines: tuple[Engine, Engine], config: VllmConfig, engine: MakeEngine, weights: str
) -> None:
    one, _ = engines
    one.serve(PROMPT)
    one.saved()
    other = deepcopy(config)
    other.kv_transfer_config.kv_connector_extra_config["weights"] = weights
    loaded = 0 if weights else 4 * CHUNK
    assert engine("b", other).serve(PROMPT).computed_tokens == len(PROMPT) - loaded


def _two_workers(config: VllmConfig) -> None:
    config.parallel_config.world_size = 2


def _weak_hash(config: VllmConfig) -> None:
    config.cache_config.prefix_caching_hash_algo = "xxhash_cbor"


def _odd_chunks(config: VllmConfig) -> None:
    config.kv_transfer_config.kv_connector_extra_config["chunk_tokens"] = BLOCK + 1


def _no_chunks(config: VllmConfig) -> None:
    config.kv_transfer_config.kv_connector_extra_config["chunk_tokens"] = 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_two_workers, "--tensor-parallel-size 1"),
        (_weak_hash, "--prefix-caching-hash-algo sha256_cbor"),
        (_odd_chunks, "not a multiple"),
        (_no_chunks, "chunk_tokens"),
    ],
)
def test_what_it_cannot_serve_is_refused(
    hosts: Hosts, config: VllmConfig, change: Callable[[VllmConfig], None], said: str
) -> None:
    changed = deepcopy(config)
    change(changed)
    with hosts.at("a", connector), pytest.raises(KVError, match=said):
        InnetConnector(changed, KVConnectorRole.WORKER, cache_config())


def test_what_the_network_cannot_take_is_left_out_whole(
    hosts: Hosts, config: VllmConfig, engine: MakeEngine
) -> None:
    slow = deepcopy(config)
    slow.kv_transfer_config.kv_connector_extra_config["saving_bytes"] = 0
    one, other = engine("a", slow), engine("b")
    with hosts.slow_to_put("a"):
        one.serve(PROMPT)
        one.serve(PROMPT[1:])  # while the first is on its way
    one.saved()
    assert other.serve(PROMPT).computed_tokens == len(PROMPT) - 4 * CHUNK
    assert other.serve(PROMPT[1:]).computed_tokens == len(PROMPT) - 1
