"""Versions of a member's summary: what another member reads is what the member has."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from innet.errors import KVError
from innet.kv.pool.network import Sealed
from innet.kv.pool.store import Tier
from innet.kv.pool.summary import (
    NO_VERSION,
    POPULAR,
    Summary,
    Version,
    hash_of,
    is_popular,
    read_answer,
)
from innet.kv.pool.tiers import MemoryTier

COLLIDING = ("n2289854", "n8022000")
"""Names of one hash."""
BLOCK = Sealed(np.zeros(8, np.uint8), b"root")
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "ask", "read", "read late"]), st.integers(0, 7)),
    max_size=60,
)


class Member:
    """A memory with its summary."""

    def __init__(self) -> None:
        self.memory = MemoryTier(8 << 20)
        self.summary = Summary(self.memory)

    def put(self, name: str) -> None:
        self.memory.put(name, BLOCK, 0)
        self.summary.on_tier(name, Tier.MEMORY)

    def remove(self, name: str) -> None:
        self.memory.remove(name)
        self.summary.on_tier(name, None)

    def numbers(self) -> list[int]:
        entries = [(name, self.memory.entry(name)) for name in self.memory.names()]
        return sorted(hash_of(name) << 1 | is_popular(entry) for name, entry in entries if entry)

    async def read(self, known: Version) -> Version:
        return read_answer(await self.summary.answer(known.number), known)


@pytest.fixture(autouse=True)
def _always_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("innet.kv.pool.summary.SUMMARY_S", 0.0)


@settings(max_examples=200, deadline=None)
@given(STEPS)
@example([("put", 4), ("put", 5), ("read", 0), ("remove", 4), ("remove", 5), ("read", 0)])
def test_a_reader_of_changes_has_the_state_of_the_member(steps: list[tuple[str, int]]) -> None:
    """With names of one hash, too, and readers that miss versions."""

    async def work() -> None:
        member, other = Member(), Member()
        known, late = NO_VERSION, NO_VERSION
        for what, number in steps:
            name = f"{number % 4}" if number < 4 else COLLIDING[number % 2]
            if what == "put":
                member.put(name)
            elif what == "remove":
                member.remove(name)
            elif what == "ask" and (entry := member.memory.entry(name)) is not None:
                entry.asked = POPULAR
                member.summary.on_tier(name, Tier.MEMORY)
            elif what == "read":
                known = await member.read(known)
                assert known.numbers.tolist() == member.numbers()
            elif what == "read late":
                late = await member.read(late)
                assert late.numbers.tolist() == member.numbers()
        assert (await other.read(known)).numbers.tolist() == []  # it knows no such version

    asyncio.run(work())


async def test_an_unchanged_summary_is_not_sent_again_and_a_change_is_small() -> None:
    member = Member()
    for number in range(1000):
        member.put(f"block {number}")
    known = read_answer(whole := await member.summary.answer(0), NO_VERSION)
    assert whole.nbytes > 4000
    assert (await member.summary.answer(known.number)).nbytes == 12
    member.remove("block 7")
    member.put("block 1000")
    answer = await member.summary.answer(known.number)
    assert answer.nbytes == 20
    assert read_answer(answer, known).numbers.tolist() == member.numbers()


async def test_a_request_that_is_cancelled_loses_no_changes() -> None:
    member = Member()
    for number in range(5000):
        member.put(f"block {number}")
    asked = asyncio.ensure_future(member.summary.answer(0))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.wait([asked])
    assert asked.cancelled()
    assert (await member.read(NO_VERSION)).numbers.tolist() == member.numbers()


@pytest.mark.parametrize(
    "words",
    [[1], [1, 0, 1], [1, 7, 0], [1, 5, 1, 9], [1, 5, 4, 4, 4, 4, 6]],
    ids=["short", "cut", "other", "not there", "twice"],
)
def test_damaged_summaries_are_refused(words: list[int]) -> None:
    known = Version(5, np.array([4, 6], "<u4"))
    with pytest.raises(KVError, match="request the whole one"):
        read_answer(np.array(words, "<u4").view(np.uint8), known)
