"""Intervals: one spelling each, cyclic membership, partition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import PlanError
from innet.plans.expression import Interval, is_partition


@st.composite
def intervals(draw: st.DrawFn) -> tuple[Interval, int]:
    group_size = draw(st.integers(1, 33))
    first = draw(st.integers(0, group_size - 1))
    return Interval.spanning(first, draw(st.integers(1, group_size)), group_size), group_size


@given(intervals())
def test_text_and_interval_are_one_to_one(case: tuple[Interval, int]) -> None:
    interval, _ = case
    assert Interval.parse(str(interval)) == interval
    assert str(Interval.parse(str(interval))) == str(interval)


@given(intervals())
def test_members_are_consecutive_on_the_circle(case: tuple[Interval, int]) -> None:
    interval, group_size = case
    members = interval.members(group_size)
    assert members[0] == interval.first
    assert members[-1] == interval.last
    assert len(set(members)) == len(members) == interval.length(group_size) <= group_size
    assert all((b - a) % group_size == 1 for a, b in pairwise(members))


def test_the_wire_format_is_as_documented() -> None:
    assert Interval.parse("3") == Interval(3, 3)
    assert Interval.parse("6-1").members(8) == (6, 7, 0, 1)
    assert str(Interval.spanning(3, 8, 8)) == "3-2"


@pytest.mark.parametrize(
    "text", ["", "-", "3-", "-3", "3-3", "03", "0-07", "1-2-3", " 1", "1\n", "٣"]
)
def test_malformed_intervals_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="not an interval"):
        Interval.parse(text)


@pytest.mark.parametrize("length", [0, 9])
def test_an_interval_fits_its_group(length: int) -> None:
    with pytest.raises(PlanError, match="from 1 to 8"):
        Interval.spanning(0, length, 8)


@given(intervals(), st.data())
def test_only_consecutive_intervals_form_a_partition(
    case: tuple[Interval, int], data: st.DataObject
) -> None:
    interval, group_size = case
    members = interval.members(group_size)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(members)))) | {len(members)})
    starts = [0, *cuts[:-1]]
    parts = [Interval(members[a], members[b - 1]) for a, b in zip(starts, cuts, strict=True)]
    assert is_partition(parts, interval, group_size)
    assert not is_partition(parts[:-1], interval, group_size)
    assert not is_partition([*parts, parts[0]], interval, group_size)
    if len(parts) > 1:
        assert not is_partition(parts[::-1], interval, group_size)
