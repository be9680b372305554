"""Quantities read as people mean them, and survive being written and read again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet import quantities as q
from innet.lab.compare.plots import byte_ticks
from innet.quantities import rounded_duration, rounded_rate, rounded_size

POSITIVE = st.floats(min_value=1e-12, max_value=1e15, allow_nan=False)


@given(POSITIVE)
def test_a_written_rate_reads_back_exactly(rate_bps: float) -> None:
    assert q.parse_rate_bps(q.format_rate(rate_bps)) == rate_bps


@given(POSITIVE)
def test_a_written_duration_reads_back_exactly(duration_s: float) -> None:
    assert q.parse_duration_s(q.format_duration(duration_s)) == duration_s


@given(st.integers(0, q.MAX_SIZE_BYTES))
def test_a_written_size_reads_back_exactly(size_bytes: int) -> None:
    assert q.parse_size_bytes(q.format_size(size_bytes)) == size_bytes


@given(st.floats(0, 1))
def test_a_written_probability_reads_back_exactly(probability: float) -> None:
    assert q.parse_probability(q.format_probability(probability)) == probability


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("200mbit", 200e6),
        ("1gbit", 1e9),
        ("1.5 Gbit/s", 1.5e9),
        ("10Mbps", 10e6),
        ("64kbit", 64e3),
        ("0.1tbit", 1e11),
        ("2 Tbit/s", 2e12),
    ],
)
def test_rates_are_decimal_bits_per_second(text: str, rate_bps: float) -> None:
    assert q.parse_rate_bps(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "duration_s"),
    [("1ms", 1e-3), ("250us", 250e-6), ("3µs", 3e-6), ("5ns", 5e-9), ("2s", 2.0), ("1min", 60.0)],
)
def test_durations_have_the_usual_units(text: str, duration_s: float) -> None:
    assert q.parse_duration_s(text) == duration_s


@pytest.mark.parametrize(
    ("value", "size_bytes"),
    [
        ("512KiB", 524288),
        ("64MiB", 67108864),
        ("3 GiB", 3 << 30),
        ("2TiB", 2 << 40),
        ("7B", 7),
        ("1.5kB", 1500),
        ("2MB", 2 * 10**6),
        ("5gb", 5 * 10**9),
        ("1.5TB", 15 * 10**11),
        (9000, 9000),
        ("9000", 9000),
    ],
)
def test_sizes_know_decimal_and_binary_units(value: q.Quantity, size_bytes: int) -> None:
    assert q.parse_size_bytes(value) == size_bytes


@pytest.mark.parametrize(("value", "probability"), [("1%", 0.01), (0.01, 0.01), ("0.5%", 0.005)])
def test_probabilities_are_percentages_or_fractions(value: q.Quantity, probability: float) -> None:
    assert q.parse_probability(value) == probability


@pytest.mark.parametrize("value", ["200", 200, "", "mbit", "-5mbit", "5 parsecs", True, "1e999bit"])
def test_what_is_no_rate_is_refused_with_an_example(value: q.Quantity) -> None:
    with pytest.raises(q.QuantityError, match="expected a rate with a unit, such as 200mbit"):
        q.parse_rate_bps(value)


@pytest.mark.parametrize("value", ["10", 10, "fast", "-1ms", float("nan"), False])
def test_what_is_no_duration_is_refused(value: q.Quantity) -> None:
    with pytest.raises(q.QuantityError, match="expected a duration with a unit"):
        q.parse_duration_s(value)


@pytest.mark.parametrize("value", ["0.5", 0.5, "1e300GiB", "2 EiB", float("inf"), -1, None])
def test_what_is_no_size_is_refused(value: q.Quantity) -> None:
    with pytest.raises(q.QuantityError, match="expected a size in whole bytes"):
        q.parse_size_bytes(value)


@pytest.mark.parametrize(
    ("parse", "units"),
    [
        (q.parse_rate_bps, "units: bit, kbit, mbit, gbit, tbit"),
        (q.parse_duration_s, "units: ns, us, ms, s, min"),
        (q.parse_size_bytes, "units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"),
    ],
)
def test_whoever_writes_an_unknown_unit_is_told_those_that_there_are(
    parse: Callable[[q.Quantity], float], units: str
) -> None:
    with pytest.raises(q.QuantityError, match=units):
        parse("3 lightyears")


@pytest.mark.parametrize("value", ["101%", 2, "-1%", "often"])
def test_what_is_no_probability_is_refused(value: q.Quantity) -> None:
    with pytest.raises(q.QuantityError, match="expected a probability from 0 to 1"):
        q.parse_probability(value)


@given(st.text() | st.floats() | st.integers() | st.booleans())
def test_nothing_but_a_quantity_error_comes_out(value: q.Quantity) -> None:
    for parse in (q.parse_rate_bps, q.parse_duration_s, q.parse_size_bytes, q.parse_probability):
        with suppress(q.QuantityError):
            parse(value)


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
