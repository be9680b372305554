"""Two SGLang servers on two hosts share what they compute with a small model."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from itertools import count, cycle
from typing import Final

import pytest

from tests.kv_adapters.running import require_sglang

require_sglang()

from tests.kv_adapters.sglang.servers import (
    LOADABLE,
    PAGE,
    TOKENS,
    Answer,
    Server,
    Servers,
    run_of_servers,
)

PAGES: Final = TOKENS // PAGE
TOKEN_BYTES: Final = 4 * 2 * 2 * 32 * 4
"""Of a token: four layers of keys and values of two heads, each of 32 elements of four bytes."""
_PAUSE_S: Final = 0.05
_TIMEOUT_S: Final = 900


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with run_of_servers(tmp_path_factory.mktemp("sglang")) as servers:
        yield servers


@pytest.mark.timeout(_TIMEOUT_S)
def test_a_host_loads_what_another_computed_and_answers_the_same(servers: Servers) -> None:
    one, other = servers.servers
    computed = one.answer(7)
    assert (computed.cached, computed.loaded) == (0, 0)
    assert len(set(computed.tokens)) > 1, "an answer of one token would always be equal"
    servers.wait_until_stored(0, PAGES)
    loaded = other.answer(7)
    assert (loaded.cached, loaded.loaded) == (LOADABLE, LOADABLE)
    assert loaded.tokens == computed.tokens
    # Equal to the bit to the answer of an engine that has the prompt in its own cache.
    cached = one.answer(7)
    assert (cached.cached, cached.loaded) == (LOADABLE, 0)
    assert loaded.logprobs == cached.logprobs
    labels = {"node": "h1", "tenant": "acme", "engine": "sglang"}
    assert servers.metric("innet_kv_hits_total", **labels) == PAGES
    assert servers.metric("innet_kv_loaded_bytes_total", **labels) == PAGES * PAGE * TOKEN_BYTES


@pytest.mark.timeout(_TIMEOUT_S)
def test_a_killed_engine_comes_back_while_the_other_answers(servers: Servers) -> None:
    one, other = servers.servers
    expected = {step: other.answer(step).tokens for step in (11, 13, 17)}
    survivor, killed = servers.process(1), servers.process(0)
    with asking(one, expected):
        for step in expected:
            other.drop_caches()
            if step == 13:
                killed.send_signal(signal.SIGKILL)
            # The survivor computes the pages that only the killed host had.
            assert other.answer(step).tokens == expected[step]
        killed.wait()
        servers.wait_until_ready(0)
    assert servers.process(1) == survivor
    # The survivor hears soon, and not at once, that the other is a home again.
    for step in count(19):
        stored = servers.metric("innet_kv_stored_total", node="h0")
        computed = one.answer(step)
        servers.wait_until_stored(0, int(stored) + PAGES)
        answer = other.answer(step)
        assert answer.tokens == computed.tokens
        if answer.loaded == LOADABLE:
            break


@contextmanager
def asking(server: Server, expected: Mapping[int, tuple[int, ...]]) -> Iterator[None]:
    """Ask a server all the time; each answer that arrives is the expected one."""
    ended = threading.Event()
    wrong: list[Answer] = []

    def ask() -> None:
        for step in cycle(expected):
            if ended.wait(_PAUSE_S):
                return
            with suppress(OSError, HTTPException):  # while it does not run
                answer = server.answer(step)
                if answer.tokens != expected[step]:
                    wrong.append(answer)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not wrong
