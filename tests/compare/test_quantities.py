"""Numbers with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.compare.quantities import format_bytes, format_rate, format_seconds

_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@given(st.floats(1e-6, 1e4))
def test_formatted_times_are_right_to_one_percent(time_s: float) -> None:
    number, unit = format_seconds(time_s).split()
    assert float(number) * _SECONDS[unit] == pytest.approx(time_s, rel=0.01)


def test_units_are_those_that_users_write() -> None:
    assert format_bytes(4096) == "4 KiB"
    assert format_bytes(64 << 20) == "64 MiB"
    assert format_rate(1e9) == "1 Gbit/s"
    assert format_rate(2.5e6) == "2.5 Mbit/s"
