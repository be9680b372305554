"""Eviction policies: what each keeps, whatever it is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.kv.eviction import POLICIES, EvictionPolicy, PolicyName, make_policy
from innet.lab.replay.single_store import BlockStore

BLOCKS = st.lists(st.integers(0, 12), max_size=120)
PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), max_size=40)


def name(number: int) -> bytes:
    return number.to_bytes(4, "big")


def prefixes(prompt: list[int]) -> list[bytes]:
    """The blocks of a prompt whose tokens are ``prompt``."""
    return [bytes(prompt[: depth + 1]) for depth in range(len(prompt))]


@pytest.mark.parametrize("policy", POLICIES)
@given(asked=BLOCKS, capacity=st.integers(1, 8))
def test_a_store_keeps_at_most_its_capacity_and_reports_victims(
    policy: PolicyName, asked: list[int], capacity: int
) -> None:
    store = BlockStore(capacity, policy)
    kept: set[bytes] = set()
    for number in asked:
        block = name(number)
        assert store.use(block) == (block in kept)
        gone = store.put(block, depth=number % 3)
        kept = (kept | {block}) - set(gone)
        assert len(gone) <= 1
        assert {block for block in map(name, range(13)) if block in store} == kept
        assert len(store) == len(kept) <= capacity


@pytest.mark.parametrize("policy", POLICIES)
@given(asked=BLOCKS)
def test_a_policy_forgets_removed_blocks(policy: PolicyName, asked: list[int]) -> None:
    used, new = make_policy(policy, 4), make_policy(policy, 4)
    for number in range(4):
        used.insert(name(number), 0)
    for number in (2, 0, 3, 1):
        used.remove(name(number))
    assert victims(used, asked) == victims(new, asked)


def victims(policy: EvictionPolicy, asked: list[int]) -> list[bytes]:
    """What a store of four blocks evicts."""
    kept: set[bytes] = set()
    gone: list[bytes] = []
    for block in map(name, asked):
        if block in kept:
            policy.use(block)
            continue
        kept.add(block)
        policy.insert(block, 0)
        if len(kept) > 4:
            gone.append(policy.take_victim())
            kept.remove(gone[-1])
    return gone


@given(asked=BLOCKS, capacity=st.integers(1, 8))
def test_lru_keeps_the_blocks_requested_last(asked: list[int], capacity: int) -> None:
    store = BlockStore(capacity, "lru")
    for number in asked:
        store.put(name(number), 0)
    last = list(dict.fromkeys(reversed(asked)))[:capacity]
    assert all(name(number) in store for number in last)


@given(asked=BLOCKS, capacity=st.integers(1, 8))
def test_lfu_evicts_a_block_with_the_fewest_requests_since_its_insertion(
    asked: list[int], capacity: int
) -> None:
    store = BlockStore(capacity, "lfu")
    counts: dict[bytes, int] = {}
    for number in asked:
        block = name(number)
        counts[block] = counts.get(block, 0) + 1
        for gone in store.put(block, 0):
            assert counts[gone] == min(counts.values())
            del counts[gone]


@given(prompts=PROMPTS, capacity=st.integers(1, 10))
def test_prefix_depth_keeps_whole_prefixes(prompts: list[list[int]], capacity: int) -> None:
    store = BlockStore(capacity, "prefix-depth")
    for prompt in prompts:
        for depth, block in enumerate(prefixes(prompt)):
            store.put(block, depth)
        for kept in map(prefixes, prompts):
            present = [block in store for block in kept]
            assert present == sorted(present, reverse=True)


def test_s3fifo_keeps_repeatedly_requested_blocks_during_a_scan() -> None:
    store = BlockStore(20, "s3fifo")
    popular = [name(number) for number in range(10)]
    for _ in range(4):
        for block in popular:
            store.put(block, 0)
    for number in range(100, 1100):
        store.put(name(number), 0)
    assert all(block in store for block in popular)


def test_s3fifo_promotes_blocks_that_return_soon() -> None:
    store = BlockStore(20, "s3fifo")
    for number in range(24):
        store.put(name(number), 0)
    assert name(0) not in store
    store.put(name(0), 0)
    for number in range(100, 140):
        store.put(name(number), 0)
    assert name(0) in store


@pytest.mark.parametrize("policy", POLICIES)
@given(asked=BLOCKS, demoted=st.lists(st.integers(0, 12), min_size=1, unique=True), used=st.data())
def test_demoted_blocks_go_first_in_the_order_of_their_use(
    policy: PolicyName, asked: list[int], demoted: list[int], used: st.DataObject
) -> None:
    store = BlockStore(4, policy)
    for number in asked:
        store.put(name(number), depth=number % 3)
    present = [name(number) for number in demoted if name(number) in store]
    if not present or len(store) < 4:
        return
    for block in present:
        store.demote(block)
    again = used.draw(st.sampled_from(present))
    assert store.use(again)
    present.remove(again)
    assert [store.put(name(13 + n), depth=0) for n in range(len(present) + 1)] == [
        [block] for block in (*present, again)
    ]
    assert store.put(name(99), depth=0, is_copy=True) == [name(99)]


@given(asked=BLOCKS, capacity=st.integers(1, 8))
def test_second_use_equals_lru_when_all_blocks_are_used_again(
    asked: list[int], capacity: int
) -> None:
    stores = [BlockStore(capacity, policy) for policy in ("second-use", "lru")]
    for number in asked:
        gone = []
        for store in stores:
            gone.append(store.put(name(number), 0))
            store.use(name(number))
        assert gone[0] == gone[1]


def test_blocks_used_once_do_not_displace_reused_ones() -> None:
    hot = [name(number) for number in range(40)]
    stores = {policy: BlockStore(100, policy) for policy in ("second-use", "lru")}
    found = dict.fromkeys(stores, 0)
    for policy, store in stores.items():
        for block in hot:
            store.put(block, 0)
        assert all(store.use(block) for block in hot)
        for turn in range(20):
            for cold in range(65):  # more than there is room for beside the hot ones
                store.put(name(1000 + 65 * turn + cold), 0)
            found[policy] += sum(store.use(block) for block in hot)
    assert found["lru"] < found["second-use"] == 20 * len(hot)
