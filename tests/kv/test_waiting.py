"""Waiting in a pool: a window with deadlines, and equal work that runs once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.kv.pool.waiting import SingleFlight, count_done_in_order
from innet.kv.pool.window import BlockWindow, Window
from tests.kv.fake_network import run


async def stay(window: Window, log: list[str], name: str, end_s: float, for_s: float) -> None:
    try:
        await window.enter(end_s)
    except TimeoutError:
        log.append(f"{name} gave up at {asyncio.get_running_loop().time():.0f}")
        return
    log.append(name)
    try:
        await asyncio.sleep(for_s)
    finally:
        window.leave()


def test_a_window_admits_waiters_in_order_of_arrival() -> None:
    async def work() -> None:
        window, log = Window(2), list[str]()
        staying = [asyncio.ensure_future(stay(window, log, str(n), 100, 10)) for n in range(5)]
        await asyncio.sleep(5)
        assert log == ["0", "1"]
        await asyncio.sleep(10)
        assert log == ["0", "1", "2", "3"]
        await asyncio.gather(*staying)
        assert log == ["0", "1", "2", "3", "4"]

    run(work())


def test_each_waiter_times_out_at_its_own_deadline_and_the_next_moves_up() -> None:
    async def work() -> None:
        window, log = Window(1), list[str]()
        ends_s = {"first": 1000, "late": 70, "early": 30, "last": 1000}
        staying = [
            asyncio.ensure_future(stay(window, log, name, end_s, 100))
            for name, end_s in ends_s.items()
        ]
        await asyncio.gather(*staying)
        assert log == ["first", "early gave up at 30", "late gave up at 70", "last"]

    run(work())


@pytest.mark.parametrize("given", [False, True])
def test_a_cancelled_waiter_keeps_no_place(given: bool) -> None:
    async def work() -> None:
        window, log = Window(1), list[str]()
        await window.enter()
        cancelled = asyncio.ensure_future(stay(window, log, "cancelled", 100, 10))
        following = asyncio.ensure_future(stay(window, log, "following", 100, 10))
        await asyncio.sleep(1)
        if given:  # in the same turn, so that it has not heard of it
            window.leave()
            cancelled.cancel()
        else:
            cancelled.cancel()
            window.leave()
        await asyncio.gather(cancelled, following, return_exceptions=True)
        assert log == ["following"]
        async with window:
            assert cancelled.cancelled()

    run(work())


@pytest.mark.parametrize("gives_up", ["never", "in time", "by cancellation"])
def test_several_places_are_taken_together_and_before_later_waiters(gives_up: str) -> None:
    async def work() -> None:
        window, log = Window(4), list[str]()
        assert window.try_enter(3)
        several = asyncio.ensure_future(window.enter(5.0 if gives_up == "in time" else 100.0, 3))
        single = asyncio.ensure_future(stay(window, log, "single", 100, 50))
        await asyncio.sleep(1)
        assert not log, "one place is free, and who came first wants three"
        if gives_up == "never":
            window.leave(3)
            await several
            window.leave(2)
        elif gives_up == "by cancellation":
            several.cancel()
        await asyncio.wait([several])
        await single
        window.leave(1 if gives_up == "never" else 3)
        assert log == ["single"]
        assert window.try_enter(4)

    run(work())


def test_a_waiter_admitted_at_its_deadline_stays() -> None:
    async def work() -> None:
        window, log = Window(1), list[str]()
        await window.enter()
        waiting = asyncio.ensure_future(stay(window, log, "waiting", 10, 50))
        await asyncio.sleep(5)
        window.leave()
        await waiting
        assert log == ["waiting"]

    run(work())


def test_finished_work_is_not_joined() -> None:
    async def watched() -> list[str]:
        flights: SingleFlight[str, str] = SingleFlight()
        ends: list[str] = []

        async def work() -> str:
            ends.append("one end")
            return "result"

        first = asyncio.ensure_future(flights.run("key", work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ends
        # In this very turn of the loop the work has ended, and nobody has heard of it.
        assert "key" not in flights
        assert await flights.run("key", work) == await first == "result"
        return ends

    assert asyncio.run(watched()) == ["one end", "one end"]


@pytest.mark.parametrize(
    ("block_bytes", "in_flight", "together"),
    [
        (1000, 32, 16),
        (64 << 10, 32, 16),
        (256 << 10, 32, 4),
        (512 << 10, 16, 4),
        (1 << 20, 8, 4),
        (64 << 20, 8, 4),
    ],
)
def test_a_window_of_eight_has_eight_mebibytes_or_eight_blocks_in_flight(
    block_bytes: int, in_flight: int, together: int
) -> None:
    window = BlockWindow(8)
    entered = 0
    while window.try_enter(window.places(block_bytes)):
        entered += 1
    assert entered == in_flight == window.blocks(block_bytes)
    assert window.together(block_bytes) == together


def test_blocks_count_as_large_until_their_family_is_known() -> None:
    window = BlockWindow(8)
    assert window.blocks(window.size_of(["small", "large"])) == 8
    window.on_seen([("small", 2000), ("small", 1000)])
    assert window.size_of(["small"]) == 2000
    assert window.blocks(window.size_of(["small", "large"])) == 8
    window.on_seen([("large", 512 << 10)])
    assert window.blocks(window.size_of(["small", "large"])) == 16


def test_a_group_of_larger_blocks_than_expected_fits_into_a_window() -> None:
    window = BlockWindow(1)
    assert window.try_enter(window.places(64 << 20, 16))
    assert not window.try_enter()


@given(
    durations_s=st.lists(st.integers(0, 5), max_size=12),
    failing=st.sets(st.integers(0, 11)),
    together=st.integers(1, 4),
    window=st.integers(1, 3),
)
def test_items_are_done_up_to_the_first_that_fails(
    durations_s: list[int], failing: set[int], together: int, window: int
) -> None:
    count = len(durations_s)
    first_failing = min((number for number in failing if number < count), default=count)
    running, done = 0, set[int]()

    async def step(numbers: range) -> int:
        nonlocal running
        running += 1
        assert running <= window
        try:
            for number in numbers:
                await asyncio.sleep(durations_s[number])
                if number in failing:
                    return number - numbers.start
                done.add(number)
            return len(numbers)
        finally:
            running -= 1

    assert run(count_done_in_order(count, step, together, window)) == first_failing
    assert done.issuperset(range(first_failing))
    assert running == 0
