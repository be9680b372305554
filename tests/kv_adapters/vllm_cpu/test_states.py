"""Models of layers with states and layers with attention, which vLLM caches in two groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kv_adapters.running import free_ports, require_vllm_for_processors

require_vllm_for_processors()

from shared.vllm_servers import (
    prompt,
    serving,
    standing_pool,
    write_convolution_model,
    write_delta_model,
)

TOKENS = 1300
BLOCK = 256
PREFIX = 600
LOADED = TOKENS // BLOCK * BLOCK
"""Up to the state behind the prompt's last whole block."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("write", "dtype", "continues"),
    [(write_convolution_model, "float32", False), (write_delta_model, "bfloat16", True)],
    ids=["LFM2", "Qwen3-Next"],
)
def test_a_consumer_answers_to_the_bit_what_the_producer_computed(
    tmp_path: Path, write: Callable[[Path], None], dtype: str, *, continues: bool
) -> None:
    """``continues``: vLLM itself answers behind an inner state as without it."""
    model, port = tmp_path / "model", free_ports(2)
    write(model)
    options = {"chunk_tokens": BLOCK}
    arguments = ["--dtype", dtype, "--block-size", str(BLOCK)]
    arguments += ["--enable-prefix-caching", "--mamba-cache-mode", "align"]
    with (
        standing_pool(tmp_path, engines=2) as pool,
        serving(
            pool, "h0", port, model, role="kv_producer", options=options, arguments=arguments
        ) as producer,
        serving(
            pool, "h1", port + 1, model, role="kv_consumer", options=options, arguments=arguments
        ) as consumer,
    ):
        producer.wait_until_ready()
        computed = producer.complete(prompt(7, TOKENS), request="r1")
        consumer.wait_until_ready()
        served = consumer.complete(prompt(7, TOKENS), request="r1")
        assert (producer.loaded_tokens, consumer.loaded_tokens) == (0, LOADED)
        assert (served.words, served.logprobs) == (computed.words, computed.logprobs)
        assert len(set(served.logprobs)) > 1, "an answer that never changes would always be equal"
        # A state inside of a longer prompt, behind the last whole block of a shorter one.
        producer.complete(prompt(11, PREFIX), request="r2")
        served = consumer.complete(prompt(11, TOKENS), request="r2")
        assert consumer.loaded_tokens == LOADED + PREFIX // BLOCK * BLOCK
        own = producer.complete(prompt(11, TOKENS))  # behind the same state, which it has itself
        assert (served.words, served.logprobs) == (own.words, own.logprobs)
        producer.forget_prefixes()
        cold = producer.complete(prompt(11, TOKENS))
        assert served.words == cold.words or not continues
