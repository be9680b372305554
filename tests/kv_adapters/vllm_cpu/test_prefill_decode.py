"""Prefill and decode apart, and tensor parallelism: engines of two hosts of a standing pool."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.kv_adapters.running import free_ports, require_vllm_for_processors

require_vllm_for_processors()

from shared.vllm_servers import (
    Completion,
    Pool,
    Server,
    prompt,
    serving,
    standing_pool,
    write_model,
)

RANKS = 2
TOKENS = 1100
LOADED = TOKENS // 256 * 256
"""Tokens in whole chunks of the default size."""


@dataclass
class Pair:
    """A producer on one host and a consumer on the other, of two ranks each."""

    pool: Pool
    producer: Server
    consumer: Server

    def lone(self, tokens: list[int]) -> Completion:
        """The answer of an engine without a pool that has cached the prompt's whole chunks.

        The producer never loads. Steps of the same size have the same bits.
        """
        return self.producer.complete(tokens)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("vllm")
    model, port = folder / "model", free_ports(2)
    write_model(model)
    with (
        standing_pool(folder, engines=RANKS + 1) as pool,
        serving(pool, "h0", port, model, role="kv_producer", ranks=RANKS) as producer,
        serving(pool, "h1", port + 1, model, role="kv_consumer", ranks=RANKS) as consumer,
    ):
        producer.wait_until_ready()
        consumer.wait_until_ready()
        yield Pair(pool, producer, consumer)


def loaded(server: Server, tokens: list[int], request: str = "") -> tuple[Completion, int]:
    """A server's answer, and the number of tokens that it loaded for it."""
    before = server.loaded_tokens
    return server.complete(tokens, request=request), server.loaded_tokens - before


@pytest.mark.timeout(1800)
def test_a_consumer_answers_to_the_bit_what_the_producer_computed(pair: Pair) -> None:
    pair.producer.complete(prompt(7, TOKENS), request="r1")
    served, count = loaded(pair.consumer, prompt(7, TOKENS), "r1")
    assert count == LOADED
    lone = pair.lone(prompt(7, TOKENS))
    assert (served.words, served.logprobs) == (lone.words, lone.logprobs)
    assert len(set(served.words)) > 1, "an answer of one word would always be equal"
    assert pair.producer.loaded_tokens == 0


@pytest.mark.timeout(1800)
def test_a_consumer_that_begins_first_awaits_the_producer(pair: Pair) -> None:
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(loaded, pair.consumer, prompt(11, TOKENS), "r2")
        pair.consumer.wait_for_requests(1)
        pair.producer.complete(prompt(11, TOKENS), request="r2")
        served, count = waiting.result()
    assert count == LOADED
    lone = pair.lone(prompt(11, TOKENS))
    assert (served.words, served.logprobs) == (lone.words, lone.logprobs)


@pytest.mark.timeout(1800)
def test_a_consumer_computes_what_nobody_announces(pair: Pair) -> None:
    served, count = loaded(pair.consumer, prompt(13, TOKENS), "r3")
    assert count == 0
    assert served.words == pair.producer.complete(prompt(13, TOKENS)).words


@pytest.mark.timeout(1800)
def test_a_cancelled_request_ends_on_both_sides(pair: Pair) -> None:
    waiting = pair.consumer.begin(prompt(17, TOKENS), request="r4")
    pair.consumer.wait_for_requests(1)
    waiting.close()
    pair.consumer.wait_for_requests(0)
    producing = pair.producer.begin(prompt(17, TOKENS), request="r4", tokens=4000)
    pair.producer.wait_for_requests(1)
    producing.close()
    pair.producer.wait_for_requests(0)
    served, _ = loaded(pair.consumer, prompt(17, TOKENS), "r4")
    assert served.words == pair.producer.complete(prompt(17, TOKENS)).words


@pytest.mark.timeout(1800)
def test_a_layout_finds_its_blocks_after_a_restart_and_no_other_does(pair: Pair) -> None:
    lone = pair.lone(prompt(7, TOKENS))
    pair.producer.close()
    pair.consumer.close()
    model, port = pair.producer.model, free_ports(2)
    with (
        serving(pair.pool, "h1", port, model, ranks=1) as other,
        serving(pair.pool, "h0", port + 1, model, ranks=RANKS) as same,
    ):
        other.wait_until_ready()
        served, count = loaded(other, prompt(7, TOKENS))
        assert (served.words, count) == (lone.words, 0)
        same.wait_until_ready()
        served, count = loaded(same, prompt(7, TOKENS))
        assert (served.words, served.logprobs, count) == (lone.words, lone.logprobs, LOADED)
