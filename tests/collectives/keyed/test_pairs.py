"""Pairs before they travel: mixing, cutting, packing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from innet.collectives.keyed.pairs import (
    MIXERS,
    PairLayout,
    Pairs,
    buckets_needed_log2,
    count_keys,
    cut,
)
from innet.errors import CollectiveError, ReductionOverflow


@st.composite
def keys_of_some_type(draw: st.DrawFn) -> np.ndarray:
    dtype: str = draw(st.sampled_from(["uint32", "uint64", "int32", "int64"]))
    most = np.iinfo(dtype).max
    several = st.sampled_from([st.integers(0, 20), st.integers(0, most)])
    return np.array(draw(st.lists(draw(several), max_size=60)), dtype)


@given(keys_of_some_type())
def test_mixing_is_reversible(keys):
    mixer = MIXERS[keys.itemsize]
    words = keys.view(mixer.dtype)
    assert (mixer.unmix(mixer.mix(words)) == words).all()


def test_mixing_spreads_common_keys_evenly():
    for keys in (np.arange(40_000), np.arange(40_000) * 4096):
        for dtype in (np.uint32, np.uint64):
            counts = count_keys(MIXERS[dtype().itemsize].mix(keys.astype(dtype)), 6)
            mean = len(keys) / len(counts)
            # Six standard deviations of an even spread.
            assert abs(counts - mean).max() < 6 * mean**0.5


@given(
    st.integers(1, 9).flatmap(
        lambda log2: arrays.arrays(np.int32, 1 << log2, elements=st.integers(0, 40))
    ),
    st.integers(40, 200),
)
def test_a_partition_fits_all_pairs_and_wastes_no_segment(counts, capacity):
    partition = cut(counts, capacity, key_bits=64)
    shift = 64 - (len(counts).bit_length() - 1)
    firsts = [int(start) >> shift for start in partition.starts]
    held = [int(part.sum()) for part in np.split(counts, firsts[1:])]
    assert partition.pairs == counts.sum()
    assert firsts[0] == 0
    assert all(a < b for a, b in itertools.pairwise(firsts))
    assert max(held) <= capacity
    assert all(a + b > capacity for a, b in itertools.pairwise(held)), "needless segments"


def test_larger_counts_need_more_buckets():
    few = np.full(256, 10, np.int32)
    assert buckets_needed_log2(few, capacity=1000) == 8
    assert buckets_needed_log2(few * 100, capacity=1000) == 11
    crowded = np.zeros(256, np.int32)
    crowded[7] = 2000
    assert buckets_needed_log2(crowded, capacity=1000) > 8


def test_an_indivisible_range_that_exceeds_a_segment_is_an_error():
    with pytest.raises(CollectiveError, match="too many ranks"):
        cut(np.array([0, 9], np.int32), capacity=8, key_bits=32)


@given(keys_of_some_type(), st.data())
def test_packed_pairs_unpack_to_the_same(keys, data):
    values = np.array(
        data.draw(st.lists(st.floats(width=32), min_size=len(keys), max_size=len(keys))),
        np.float32,
    )
    pairs = Pairs.combined(keys, values, "max")
    capacity = data.draw(st.integers(4, 40))
    counts = count_keys(pairs.mixed, 12)
    partition = cut(counts, capacity, pairs.type.mixer.bits)
    layout = pairs.type.layout
    contents, ends = layout.pack(pairs.mixed, pairs.values, partition)
    sizes = np.diff(ends, prepend=np.uint64(0)).astype(np.int64)
    assert sizes.max() <= 4 + capacity * layout.pair_bytes
    rows = np.full((len(sizes), sizes.max()), 0xAA, np.uint8)
    for row, size, end in zip(rows, sizes, ends.astype(np.int64), strict=True):
        row[:size] = contents[end - size : end]
    back_keys, back_values = Pairs(pairs.type, *layout.unpack(rows, sizes)).unmixed()
    assert back_keys.dtype == keys.dtype
    assert (back_keys == np.unique(keys)).all()
    expected = dict.fromkeys(keys.tolist(), -np.inf)
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        expected[key] = np.maximum(np.float32(expected[key]), np.float32(value))
    np.testing.assert_array_equal(back_values, [expected[key] for key in back_keys.tolist()])


def test_equal_keys_of_one_rank_are_added_in_the_order_given():
    keys = np.array([7, 3, 7, 7], np.uint64)
    values = np.array([1e8, 2.0, -1e8, 1.0], np.float32)
    summed = dict(zip(*Pairs.combined(keys, values, "sum").unmixed(), strict=True))
    assert summed == {3: 2.0, 7: 1.0}
    summed = dict(zip(*Pairs.combined(keys, values[::-1], "sum").unmixed(), strict=True))
    assert summed == {3: -1e8, 7: 1e8}


def test_sums_of_one_rank_wrap_around_only_where_that_is_asked_for():
    keys = np.zeros(3, np.uint32)
    most = np.iinfo(np.int64).max
    with pytest.raises(ReductionOverflow):
        Pairs.combined(keys, np.array([most, 1, 0]), "sum")
    assert Pairs.combined(keys, np.array([most, -1, 1]), "sum").values == [most]
    least = np.iinfo(np.int64).min
    assert Pairs.combined(keys, np.array([most, 1, 0]), "sum", wraps=True).values == [least]
    assert Pairs.combined(keys, np.array([2**40, 2**40, 1]), "prod").values == [0]
    assert Pairs.combined(keys, np.array([2**40, 2**20, -1]), "prod").values == [-(2**60)]


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (np.zeros(3, np.uint64), np.zeros(4)),
        (np.zeros((2, 2), np.uint64), np.zeros((2, 2))),
        (np.zeros(3), np.zeros(3)),
        (np.array(["a"]), np.zeros(1)),
        (np.zeros(3, np.uint64), np.zeros(3, np.float16)),
        (np.array([-1]), np.zeros(1)),
    ],
)
def test_invalid_pairs_are_refused(keys, values):
    with pytest.raises(CollectiveError):
        Pairs.combined(keys, values, "sum")


@pytest.mark.parametrize("damage", ["count", "short", "order"])
def test_a_damaged_segment_is_an_error(damage):
    pairs = Pairs.combined(np.arange(5, dtype=np.uint64), np.arange(5.0), "sum")
    partition = cut(count_keys(pairs.mixed, 8), 40, 64)
    contents, _ = pairs.type.layout.pack(pairs.mixed, pairs.values, partition)
    if damage == "count":
        contents[0] += 1
    if damage == "short":
        contents = contents[:3]
    if damage == "order":
        contents[4:12] = 0xFF
    with pytest.raises(CollectiveError):
        PairLayout(np.dtype(np.uint64), np.dtype(np.float64)).unpack(
            contents[None], np.array([len(contents)])
        )
