"""Numbers with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.lab.compare.plots import byte_ticks
from innet.quantities import rounded_duration, rounded_rate, rounded_size

_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@given(st.floats(1e-6, 1e4))
def test_formatted_times_are_right_to_one_percent(time_s: float) -> None:
    number, unit = rounded_duration(time_s).split()
    assert float(number) * _SECONDS[unit] == pytest.approx(time_s, rel=0.01)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(10**6, "1 MB"), (10**8, "100 MB"), (5 * 10**9, "5 GB"), (9000, "9 kB"), (2 << 30, "2 GiB")],
)
def test_a_size_in_decimal_units_stays_round(size_bytes: int, text: str) -> None:
    assert rounded_size(size_bytes) == text


@given(st.integers(4, 2**50))
def test_the_ticks_of_an_axis_of_bytes_are_round(most_bytes: int) -> None:
    ticks = byte_ticks(most_bytes)
    assert 2 <= len(ticks) <= 5
    assert ticks[-1] <= most_bytes
    assert all((2 * float(rounded_size(tick).split()[0])).is_integer() for tick in ticks)


def test_units_are_those_that_users_write() -> None:
    assert rounded_size(4096) == "4 KiB"
    assert rounded_size(64 << 20) == "64 MiB"
    assert rounded_rate(1e9) == "1 Gbit/s"
    assert rounded_rate(2.5e6) == "2.5 Mbit/s"
