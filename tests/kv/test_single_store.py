"""One store and all requests: the reference for replays."""

from __future__ import annotations

import os
from collections import OrderedDict
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.kv.eviction import DEFAULT_POLICY, POLICIES, PolicyName
from innet.kv.pool_options import MemberOptions
from innet.lab.replay.single_store import (
    BlockStore,
    ReferenceRates,
    belady_rate,
    hit_rate,
    longest_prefix,
)
from innet.lab.traces import PromptRequest, load_trace

SLICE = Path(__file__).resolve().parents[2] / "workloads" / "traces" / "conversation.jsonl"
WHOLE_TRACE = "INNET_CONVERSATION_TRACE"


@pytest.fixture(scope="module")
def requests() -> tuple[PromptRequest, ...]:
    return load_trace(SLICE, SLICE.read_text())


@pytest.mark.parametrize("capacity", [50, 500, 5000])
def test_lru_hits_equal_a_plain_count(requests: tuple[PromptRequest, ...], capacity: int) -> None:
    order: OrderedDict[bytes, None] = OrderedDict()
    hits = 0
    for request in requests:
        present = [block in order for block in request.blocks]
        hits += present.index(False) if False in present else len(present)
        for block in request.blocks:
            order[block] = None
            order.move_to_end(block)
            if len(order) > capacity:
                order.popitem(last=False)
    asked = sum(len(request.blocks) for request in requests)
    assert hit_rate(requests, BlockStore(capacity)) == hits / asked


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_beats_an_unlimited_store(
    requests: tuple[PromptRequest, ...], policy: PolicyName
) -> None:
    most = hit_rate(requests, BlockStore(None))
    assert 0 < hit_rate(requests, BlockStore(400, policy)) < most
    assert hit_rate(requests, BlockStore(100_000, policy)) == most


def test_the_default_policy_keeps_reused_blocks_among_many_unused_ones() -> None:
    """Prompts with one of 20 shared beginnings, each followed by blocks of its own."""
    prompts = []
    for number in range(400):
        shared = [b"shared %d %d" % (number * number % 20, i) for i in range(5)]
        own = [b"own %d %d" % (number, i) for i in range(5)]
        prompts.append(PromptRequest(0.0, 5120, 1, (*shared, *own)))
    found = {
        policy: hit_rate(prompts, BlockStore(60, policy)) for policy in ("lru", DEFAULT_POLICY)
    }
    assert found[DEFAULT_POLICY] > 1.1 * found["lru"]
    assert MemberOptions.of({}).policy == DEFAULT_POLICY


def test_references_are_one_store_of_that_memory_and_one_for_all() -> None:
    prompts = [PromptRequest(0.0, 1024, 1, (bytes([n % 3]), bytes([n % 3, 1]))) for n in range(9)]
    # Two of three prompts fit: with LRU, each goes before it is asked for again.
    # The best choice keeps one of them, and the other every second time.
    assert ReferenceRates.of(prompts, 4, "lru") == ReferenceRates(0.0, 8 / 18, 6 / 9)
    assert ReferenceRates.of(prompts, 6, "lru", warm_up=3) == ReferenceRates(1.0, 1.0, 1.0)
    assert ReferenceRates.of(prompts, None, "lru") == ReferenceRates(6 / 9, 6 / 9, 6 / 9)


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=3), max_size=5),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_beladys_rate_is_the_optimum(prompts: list[list[int]], capacity: int, warm_up: int) -> None:
    requests = [
        PromptRequest(0.0, 1, 1, tuple(bytes(prompt[: n + 1]) for n in range(len(prompt))))
        for prompt in prompts
    ]
    most = {frozenset[bytes](): 0}
    for number, request in enumerate(requests):
        then: dict[frozenset[bytes], int] = {}
        for kept, hits in most.items():
            hits += longest_prefix(request.blocks, kept) if number >= warm_up else 0
            within = sorted({*kept, *request.blocks})
            for chosen in combinations(within, min(capacity, len(within))):
                then[frozenset(chosen)] = max(hits, then.get(frozenset(chosen), 0))
        most = then
    counted = sum(len(request.blocks) for request in requests[warm_up:])
    best = max(most.values()) / counted if counted else 0.0
    assert belady_rate(requests, capacity, warm_up) == best


@pytest.mark.skipif(
    WHOLE_TRACE not in os.environ,
    reason=f"{WHOLE_TRACE} does not name Mooncake's conversation_trace.jsonl",
)
def test_the_whole_trace_gives_the_known_rates() -> None:
    path = Path(os.environ[WHOLE_TRACE])
    requests = load_trace(path, path.read_text())
    sizes = (1000, 10_000, 30_000, 50_000, 100_000, None)
    # A block is a hit when all blocks before it are.
    assert [round(hit_rate(requests, BlockStore(size)), 3) for size in sizes] == [
        0.044, 0.211, 0.326, 0.355, 0.364, 0.366,
    ]  # fmt: skip
