"""The documented vLLM command shares blocks between hosts, and survives the death of an engine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count

import pytest

from tests.kv_adapters.running import require_vllm_for_processors

require_vllm_for_processors()

from tests.kv_adapters.vllm_cpu.servers import Servers, prompt, running_servers

TOKENS = 1100
CHUNKS = TOKENS // 256
"""Whole chunks of the default size; the model has one object for each."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with running_servers(tmp_path_factory.mktemp("vllm")) as servers:
        yield servers


@pytest.mark.timeout(900)
def test_a_host_loads_what_another_computed_and_answers_the_same(servers: Servers) -> None:
    assert servers.processes_of_engine(0) == {"VLLM::EngineCore", "VLLM::Worker"}
    computed = servers.answer(0, prompt(7, TOKENS))
    servers.wait_until_stored(0, CHUNKS)
    assert servers.loaded_tokens(0) == 0
    assert len(set(computed.split())) > 1, "an answer of one word would always be equal"
    assert servers.answer(1, prompt(7, TOKENS)) == computed
    assert servers.loaded_tokens(1) == CHUNKS * 256
    labels = {"node": "h1", "tenant": "acme", "engine": "vllm"}
    assert servers.metric("innet_kv_hits_total", **labels) == CHUNKS
    assert servers.metric("innet_kv_load_seconds_count", **labels) == CHUNKS
    assert servers.metric("innet_kv_lookups_found_total", **labels) == CHUNKS


@pytest.mark.timeout(900)
def test_a_killed_engine_comes_back_while_the_other_answers(servers: Servers) -> None:
    expected = servers.answer(1, prompt(11, TOKENS))
    survivor, killed = servers.process(1), servers.process(0)
    killed.send_signal(signal.SIGKILL)
    assert servers.answer(1, prompt(11, TOKENS)) == expected
    computed = servers.answer(1, prompt(13, TOKENS))
    killed.wait()
    servers.wait_until_ready(0)
    assert servers.process(1) == survivor
    assert servers.answer(0, prompt(13, TOKENS)) == computed
    # The survivor learns soon, and not at once, that the other is a home again.
    for step in count(17):
        stored = servers.metric("innet_kv_stored_total", node="h0")
        before = servers.loaded_tokens(1)
        computed = servers.answer(0, prompt(step, TOKENS))
        servers.wait_until_stored(0, int(stored) + CHUNKS)
        assert servers.answer(1, prompt(step, TOKENS)) == computed
        if servers.loaded_tokens(1) - before == CHUNKS * 256:
            break
