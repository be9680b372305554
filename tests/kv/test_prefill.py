"""Load or compute: by what loads have cost, and what computing costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.kv.prefill import Arrivals, LoadSpeed, LoadTime, PrefillCost, blocks_worth_loading

SECONDS = st.floats(1e-6, 10)


@given(
    st.lists(st.sampled_from([0, 1000]), max_size=8),
    st.builds(PrefillCost, token_s=SECONDS, pair_s=SECONDS, start_s=SECONDS),
    st.builds(LoadTime, latency_s=SECONDS, bytes_per_s=st.floats(1, 1e9)),
)
def test_the_chosen_number_of_blocks_ends_soonest(
    away: list[int], cost: PrefillCost, time: LoadTime
) -> None:
    def whole_s(blocks: int) -> float:
        left = tokens - 4 * blocks
        return time.duration_s(sum(away[:blocks])) + (
            cost.duration_s(left, 4 * blocks) if left else 0.0
        )

    tokens = 4 * len(away) + 1
    best = blocks_worth_loading(away, 4, tokens, cost, time)
    assert whole_s(best) == min(map(whole_s, range(len(away) + 1)))


def test_local_blocks_are_always_loaded() -> None:
    cost = PrefillCost(token_s=1e-6, pair_s=0.0, start_s=0.0)
    slow = LoadTime(latency_s=9.0, bytes_per_s=1.0)
    assert blocks_worth_loading([0, 0, 100], 4, 12, cost, slow) == 2


def test_old_measurements_are_forgotten_and_new_ones_weigh_more() -> None:
    speed = LoadSpeed()
    assert speed.estimate(0.0) is None
    speed.measured(0.0, Arrivals(0.1, 7), Arrivals(1.0, 100))
    assert speed.estimate(1.0) == LoadTime(0.1 - 0.07, 100.0)
    speed.measured(2.0, Arrivals(0.1, 50), Arrivals(0.0, 0))  # 500 bytes a second
    latest = speed.estimate(3.0)
    assert latest is not None
    assert latest.bytes_per_s == 200.0
    assert speed.estimate(60.0) is None


def test_empty_blocks_have_no_speed() -> None:
    speed = LoadSpeed()
    speed.measured(0.0, Arrivals(1.0, 0), Arrivals(0.5, 0))
    assert speed.estimate(0.0) is None


@given(
    first=st.builds(Arrivals, SECONDS, st.integers(1, 1 << 20)),
    rest=st.builds(Arrivals, SECONDS, st.integers(0, 1 << 20)),
)
def test_a_load_is_estimated_to_take_as_long_as_it_took(first: Arrivals, rest: Arrivals) -> None:
    if not rest.size_bytes:
        rest = Arrivals(0.0, 0)
    speed = LoadSpeed()
    speed.measured(0.0, first, rest)
    time = speed.estimate(0.0)
    assert time is not None
    took_s = first.duration_s + rest.duration_s
    estimated_s = time.duration_s(first.size_bytes + rest.size_bytes)
    # Where the others came slower than the first, the rate is theirs.
    assert (
        estimated_s == pytest.approx(took_s)
        if time.latency_s
        else estimated_s >= took_s * (1 - 1e-9)
    )
