"""A model of layers with and without sliding windows, which vLLM caches in two groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kv_adapters.running import free_ports, require_vllm_for_processors

require_vllm_for_processors()

from shared.vllm_servers import prompt, serving, standing_pool, write_window_model

TOKENS = 1100
LOADED = TOKENS // 256 * 256
WINDOW = 300
"""More than a chunk of the default size, and less than the prompt."""


@pytest.mark.timeout(1800)
def test_a_consumer_answers_to_the_bit_what_the_producer_computed(tmp_path: Path) -> None:
    model, port = tmp_path / "model", free_ports(2)
    write_window_model(model, WINDOW)
    with (
        standing_pool(tmp_path, engines=2) as pool,
        serving(pool, "h0", port, model, role="kv_producer") as producer,
        serving(pool, "h1", port + 1, model, role="kv_consumer") as consumer,
    ):
        producer.wait_until_ready()
        producer.complete(prompt(7, TOKENS), request="r1")
        lone = producer.complete(prompt(7, TOKENS))  # which it has itself
        consumer.wait_until_ready()
        served = consumer.complete(prompt(7, TOKENS), request="r1")
        assert consumer.loaded_tokens == LOADED
        assert (served.words, served.logprobs) == (lone.words, lone.logprobs)
        assert len(set(served.logprobs)) > 1, "an answer that never changes would always be equal"
