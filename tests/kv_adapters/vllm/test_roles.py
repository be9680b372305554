"""Engines that only prefill or only decode: vLLM's roles ``kv_producer`` and ``kv_consumer``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

REASON = "vLLM is not installed here: `make kv-adapters` tests with it"
pytest.importorskip("vllm", reason=REASON)

from vllm.config import VllmConfig

from innet.kv.adapters.vllm import connector
from tests.kv_adapters.hosts import Hosts
from tests.kv_adapters.vllm.engine import CHUNK, Engine, make_config, write_model
from tests.kv_adapters.vllm.test_connector import PROMPT

MakeEngine = Callable[..., Engine]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> VllmConfig:
    """Made once, as in the tests of the connector."""
    folder = tmp_path_factory.mktemp("model")
    write_model(folder)
    return make_config(folder)


@pytest.fixture
def engine(config: VllmConfig, hosts: Hosts) -> Iterator[MakeEngine]:
    """Makes an engine of a role at a host."""
    made = []

    def make(host: str, role: str, **options: float) -> Engine:
        own = deepcopy(config)
        own.kv_transfer_config.kv_role = role
        own.kv_transfer_config.kv_connector_extra_config |= options
        with hosts.at(host, connector):
            made.append(Engine(own))
        return made[-1]

    yield make
    for each in made:
        with hosts.at("a", connector):
            each.close()


def test_a_producer_never_loads_and_a_consumer_never_saves(engine: MakeEngine) -> None:
    consumer, both = engine("b", "kv_consumer"), engine("b", "kv_both")
    consumer.serve(PROMPT)
    consumer.saved()
    assert both.serve(PROMPT).computed_tokens == len(PROMPT), "the consumer has saved nothing"
    both.saved()
    assert engine("a", "kv_producer").serve(PROMPT).computed_tokens == len(PROMPT)
    assert engine("a", "kv_consumer").serve(PROMPT).computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_consumer_that_begins_first_waits_for_what_a_producer_announces(
    engine: MakeEngine,
) -> None:
    producer, consumer = engine("a", "kv_producer"), engine("b", "kv_consumer")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(consumer.serve, PROMPT, "r1")
        assert producer.serve(PROMPT, "r1").computed_tokens == len(PROMPT)
        served = waiting.result()
    assert served.is_right
    assert served.computed_tokens == len(PROMPT) - 4 * CHUNK


def test_a_consumer_computes_what_nobody_announces_in_time(engine: MakeEngine) -> None:
    served = engine("b", "kv_consumer", announced_timeout_s=0.1).serve(PROMPT, "r1")
    assert served.is_right
    assert served.computed_tokens == len(PROMPT)
