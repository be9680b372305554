"""A cache of ``transformers`` is put and found, and computing continues from it to the bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("transformers", reason="needs transformers: pip install 'innet[serving]'")

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, MistralConfig

import innet
from innet.errors import KVError, PrefixLost
from innet.kv.pool_options import MemberOptions
from innet.kv.transformers_cache import arriving_cache, cache_with, keys_and_values
from tests.kv.fake_network import FakeFabric

pytestmark = pytest.mark.torch

TOKENS = torch.randint(64, (1, 40), generator=torch.Generator().manual_seed(3))
PREFIX = 24


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: there is none here")
    return str(request.param)


@pytest.fixture(params=[torch.float32, torch.bfloat16])
def model(request: pytest.FixtureRequest, device: str) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config).eval().to(device, request.param)


@pytest.fixture
def pool(model: LlamaForCausalLM) -> Iterator[innet.KVPool]:
    fabric = FakeFabric({"h0": 1 << 22})
    with fabric.member("h0", MemberOptions.of({})) as member:
        yield innet.KVPool(model, block_tokens=8, layers_per_block=2, member=member)


@torch.no_grad()
def _compute(model: LlamaForCausalLM, cache: DynamicCache, start: int, end: int) -> torch.Tensor:
    ids = TOKENS[:, start:end].to(model.device)
    output = model(input_ids=ids, past_key_values=cache, use_cache=True)
    logits: torch.Tensor = output.logits
    return logits


def test_generation_continues_from_an_injected_cache_to_the_bit(
    model: LlamaForCausalLM, pool: innet.KVPool
) -> None:
    cache = DynamicCache(config=model.config)
    _compute(model, cache, 0, PREFIX)
    prompt = TOKENS[0, :PREFIX].numpy()
    assert pool.blocking.put(prompt, keys_and_values(cache)) == PREFIX
    expected = _compute(model, cache, PREFIX, 40)

    found, kv = pool.blocking.get_longest_prefix(TOKENS[0].numpy())
    assert found == PREFIX
    cache = cache_with(kv, model.config, model.device)
    assert torch.equal(_compute(model, cache, PREFIX, 40), expected)

    arriving = arriving_cache(pool.blocking.layers(TOKENS[0].numpy()), 3)
    assert arriving is not None
    assert arriving.get_seq_length() == PREFIX
    assert torch.equal(_compute(model, arriving, PREFIX, 40), expected)
    assert arriving.get_seq_length() == 40


def test_only_new_blocks_are_put(model: LlamaForCausalLM, pool: innet.KVPool) -> None:
    cache = DynamicCache(config=model.config)
    _compute(model, cache, 0, 40)
    prompt = TOKENS[0].numpy()
    pool.blocking.put(
        prompt[:PREFIX], [(k[:PREFIX], v[:PREFIX]) for k, v in keys_and_values(cache)]
    )
    new = keys_and_values(cache, PREFIX)
    assert pool.blocking.put(prompt, new, first_token=PREFIX) == 40
    assert pool.blocking.get_longest_prefix(prompt)[0] == 40


def test_without_a_prefix_there_is_nothing_to_inject(
    model: LlamaForCausalLM, pool: innet.KVPool
) -> None:
    found, kv = pool.blocking.get_longest_prefix([1] * 30)
    assert found == 0
    assert cache_with(kv, model.config).get_seq_length() == 0
    assert arriving_cache(pool.blocking.layers([1] * 30), 3) is None


def test_lost_layers_are_an_error(model: LlamaForCausalLM, pool: innet.KVPool) -> None:
    cache = DynamicCache(config=model.config)
    _compute(model, cache, 0, PREFIX)
    prompt = TOKENS[0, :PREFIX].numpy()
    pool.blocking.put(prompt, keys_and_values(cache))
    first, _ = pool.blocking.layers(prompt)
    arriving = arriving_cache(iter([first]), 3)
    assert arriving is not None
    with pytest.raises(PrefixLost, match="layer 2"):
        _compute(model, arriving, PREFIX, 40)


def test_caches_without_all_tokens_of_one_prompt_are_refused() -> None:
    states = torch.zeros(2, 1, 4, 2)
    batch = DynamicCache()
    batch.update(states, states, 0)
    with pytest.raises(KVError, match="2 prompts"):
        keys_and_values(batch)
    sliding = DynamicCache(config=MistralConfig(num_hidden_layers=1, sliding_window=2))
    sliding.update(states[:1], states[:1], 0)
    with pytest.raises(KVError, match="sliding"):
        keys_and_values(sliding)
