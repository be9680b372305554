"""Engines that only prefill or only decode: vLLM's roles ``kv_producer`` and ``kv_consumer``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

REASON = "vLLM is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("vllm", reason=REASON)

from vllm.config import VllmConfig

from tests.kv_adapters.vllm.conftest import MakeEngine
from tests.kv_adapters.vllm.engine import CHUNK, PROMPT, Engine

MakeRole = Callable[..., Engine]


@pytest.fixture
def engine_of(config: VllmConfig, engine: MakeEngine) -> MakeRole:
    """Makes an engine of a role at a host."""

    def make(host: str, role: str, **options: float) -> Engine:
        own = deepcopy(config)
        own.kv_transfer_config.kv_role = role
        own.kv_transfer_config.kv_connector_extra_config |= options
        return engine(host, own)

    return make


def test_a_producer_never_loads_and_a_consumer_never_saves(engine_of: MakeRole) -> None:
    consumer, both = engine_of("b", "kv_consumer"), engine_of("b", "kv_both")
    consumer.serve(PROMPT)
    consumer.saved()
    assert both.serve(PROMPT).computed_tokens == len(PROMPT), "the consumer has saved nothing"
    both.saved()
    assert engine_of("a", "kv_producer").serve(PROMPT).computed_tokens == len(PROMPT)
    assert engine_of("a", "kv_consumer").serve(PROMPT).computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_consumer_that_begins_first_waits_for_what_a_producer_announces(
    engine_of: MakeRole,
) -> None:
    producer, consumer = engine_of("a", "kv_producer"), engine_of("b", "kv_consumer")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(consumer.serve, PROMPT, "r1")
        assert producer.serve(PROMPT, "r1").computed_tokens == len(PROMPT)
        served = waiting.result()
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_consumer_computes_what_nobody_announces_in_time(engine_of: MakeRole) -> None:
    served = engine_of("b", "kv_consumer", announced_timeout_s=0.1).serve(PROMPT, "r1")
    assert served.is_right
    assert served.computed_tokens == len(PROMPT)
