"""The contributions that are summed, and their sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import CollectiveError
from innet.lab.compare.pattern import Pattern

elements = st.integers(1, 20_000)
turns = st.integers(0, 10_000)


@given(elements, st.integers(1, 300), turns, st.randoms())
def test_the_sum_is_exact_in_any_order(count: int, ranks: int, turn: int, random: object) -> None:
    pattern = Pattern(4 * count, ranks)
    order = list(range(ranks))
    random.shuffle(order)  # type: ignore[attr-defined]
    total = np.zeros(count, np.float32)
    for rank in order:
        total += pattern.contribution(rank, turn)
    np.testing.assert_array_equal(total, pattern.total(turn))


@given(turns)
def test_the_result_of_the_previous_turn_is_wrong_in_the_next(turn: int) -> None:
    pattern = Pattern(4096, 8)
    assert not np.array_equal(pattern.total(turn), pattern.total(turn + 1))


@given(st.integers(64, 9000).map(lambda count: count // 64 * 64))
def test_no_two_segments_of_a_tensor_are_equal(segment_elements: int) -> None:
    total = Pattern(4 * segment_elements * 16, 8).total(0)
    segments = total.reshape(16, segment_elements)
    assert len({segment.tobytes() for segment in segments}) == 16


@pytest.mark.parametrize("size_bytes", [0, -4, 6])
def test_invalid_sizes_are_refused(size_bytes: int) -> None:
    with pytest.raises(CollectiveError, match="multiple of 4"):
        Pattern(size_bytes, 8)


def test_more_ranks_than_can_be_summed_exactly_are_refused() -> None:
    with pytest.raises(CollectiveError, match="not exact"):
        Pattern(4096, 50_000)


def test_the_sum_of_ten_thousand_ranks_is_exact() -> None:
    pattern = Pattern(4096, 10_000)
    total = np.zeros(1024, np.float32)
    for rank in range(10_000):
        total += pattern.contribution(rank, 63)
    np.testing.assert_array_equal(total, pattern.total(63))
