"""Numbers with units, as people write them in topology files and on the command line.

========== ======================= ==============================================
quantity   examples                 units
========== ======================= ==============================================
rate       ``200mbit`` ``1.5gbit``  bit, kbit, mbit, gbit, tbit (decimal), also as
                                    ``Mbit/s`` or ``Mbps`` (bits in either spelling)
duration   ``1ms`` ``250us``        ns, us (or µs), ms, s, min
size       ``512KiB`` ``9000``      B, kB, MB, GB (decimal), KiB, MiB, GiB (binary)
probability ``1%`` ``0.01``         percent, or a fraction of one
========== ======================= ==============================================

Upper and lower case are the same. Every ``parse_…`` inverts its ``format_…`` exactly, because both
work in decimal arithmetic and round to a float once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

Quantity = str | int | float

_NUMBER_AND_UNIT: Final = re.compile(
    r"\s*(?P<number>[0-9]{1,40}(?:\.[0-9]{0,40})?(?:e[+-]?[0-9]{1,3})?)\s*(?P<unit>[a-zµμ%/]*)\s*",
    re.IGNORECASE,
)

_RATE_UNITS: Final = {
    prefix + spelling: Decimal(10) ** exponent
    for prefix, exponent in (("", 0), ("k", 3), ("m", 6), ("g", 9), ("t", 12))
    for spelling in ("bit", "bit/s", "bps")
}
_DURATION_UNITS: Final = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),  # MICRO SIGN
    "μs": Decimal("1e-6"),  # GREEK SMALL LETTER MU, which many keyboards produce instead
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
}
_SIZE_UNITS: Final = {
    "": Decimal(1),
    "B": Decimal(1),
    "kB": Decimal(10) ** 3,
    "MB": Decimal(10) ** 6,
    "GB": Decimal(10) ** 9,
    "TB": Decimal(10) ** 12,
    "KiB": Decimal(2) ** 10,
    "MiB": Decimal(2) ** 20,
    "GiB": Decimal(2) ** 30,
    "TiB": Decimal(2) ** 40,
}
_PROBABILITY_UNITS: Final = {"": Decimal(1), "%": Decimal("0.01")}

RATE_EXPECTED: Final = (
    "a rate with a unit, such as 200mbit or 1gbit (units: bit, kbit, mbit, gbit, tbit)"
)
DURATION_UNITS: Final = "units: ns, us, ms, s, min"
DURATION_EXPECTED: Final = f"a duration with a unit, such as 1ms or 250us ({DURATION_UNITS})"
SIZE_EXPECTED: Final = (
    "a size in whole bytes, such as 9000 or 512KiB (units: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"
)
PROBABILITY_EXPECTED: Final = "a probability from 0 to 1, such as 1% or 0.01"

MAX_SIZE_BYTES: Final = 2**60
"""Larger sizes are typing errors, and sums of them would leave a 64-bit counter."""


class QuantityError(ValueError):
    """A text is not the quantity it should be; the message says what was expected and found."""

    def __init__(self, expected: str, found: object, hint: str = "") -> None:
        self.expected = expected
        self.found = found
        super().__init__(f"expected {expected}, found {shown(found)}{hint}")


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """A number of things, with the right form of their name; by default the plural ends with s.

    >>> counted(1, "rule"), counted(1200, "rule"), counted(2, "switch", "switches")
    ('1 rule', '1,200 rules', '2 switches')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def parse_rate_bps(value: Quantity) -> float:
    """Return a rate in bits per second.

    Raises:
        QuantityError: no number with a unit of rate. A bare number is refused, since tools differ
            on whether it would mean bit/s or Mbit/s.

    >>> parse_rate_bps("200mbit")
    200000000.0
    """
    return _finite(_decimal(value, _RATE_UNITS, RATE_EXPECTED), RATE_EXPECTED, value)


def format_rate(rate_bps: float) -> str:
    """Write a rate with the largest unit that keeps it at one or above: ``200mbit``."""
    return _in_largest_unit(rate_bps, _RATE_UNITS, ("tbit", "gbit", "mbit", "kbit", "bit"))


def parse_duration_s(value: Quantity) -> float:
    """Return a duration in seconds; zero needs no unit.

    Raises:
        QuantityError: no number with a unit of time.
    """
    if value in ("0", 0) and not isinstance(value, bool):
        return 0.0
    return _finite(_decimal(value, _DURATION_UNITS, DURATION_EXPECTED), DURATION_EXPECTED, value)


def format_duration(duration_s: float) -> str:
    """Write a duration with the largest unit of second and below that keeps it at one or above."""
    return _in_largest_unit(duration_s, _DURATION_UNITS, ("s", "ms", "us", "ns"))


def parse_size_bytes(value: Quantity) -> int:
    """Return a size in bytes.

    Raises:
        QuantityError: no number, an unknown unit, a fraction of a byte, or more than
            :data:`MAX_SIZE_BYTES`.
    """
    size = _decimal(value, _SIZE_UNITS, SIZE_EXPECTED)
    if size > MAX_SIZE_BYTES or size != size.to_integral_value():
        raise QuantityError(SIZE_EXPECTED, value)
    return int(size)


def format_size(size_bytes: int) -> str:
    """Write a size with the largest binary unit that divides it, or as a bare number of bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        count, rest = divmod(size_bytes, int(_SIZE_UNITS[unit]))
        if count and not rest:
            return f"{count}{unit}"
    return str(size_bytes)


def parse_probability(value: Quantity) -> float:
    """Return a probability from 0 to 1.

    Raises:
        QuantityError: neither a percentage nor a fraction of one.
    """
    number = _decimal(value, _PROBABILITY_UNITS, PROBABILITY_EXPECTED)
    if number > 1:
        raise QuantityError(PROBABILITY_EXPECTED, value)
    return float(number)


def format_probability(probability: float) -> str:
    """Write a probability as a percentage: ``1%``."""
    return _plain(Decimal(repr(probability)) * 100) + "%"


def _decimal(value: Quantity, units: Mapping[str, Decimal], expected: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(expected, value)
    text = value if isinstance(value, str) else _number_text(value, expected)
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise QuantityError(expected, value)
    number, unit = match["number"], match["unit"].lower()
    for spelling, multiplier in units.items():
        if spelling.lower() == unit:
            return Decimal(number) * multiplier
    longer = (spelling for spelling in units if unit and spelling.lower().startswith(unit))
    near = min(longer, key=len, default=None)
    hint = "" if near is None else f"; did you mean {number + near!r}?"
    raise QuantityError(expected, value, hint)


def _number_text(value: float, expected: str) -> str:
    if not math.isfinite(value) or abs(value) > 1e30:
        raise QuantityError(expected, value)
    return repr(value)


def _finite(number: Decimal, expected: str, found: object) -> float:
    result = float(number)
    if not math.isfinite(result):
        raise QuantityError(expected, found)
    return result


def _in_largest_unit(
    value: float, units: Mapping[str, Decimal], largest_first: tuple[str, ...]
) -> str:
    exact = Decimal(repr(float(value)))
    smallest = largest_first[-1]
    unit = next(
        (u for u in largest_first if exact >= units[u]), smallest if exact else largest_first[0]
    )
    return _plain(exact / units[unit]) + unit


def _plain(number: Decimal) -> str:
    """Without an exponent where that stays short, and without trailing zeros."""
    text = f"{number.normalize():f}"
    return text if len(text) <= 24 else str(number.normalize())


def shown(found: object) -> str:
    """``repr`` cut to a length that fits into a message."""
    text = repr(found)
    return text if len(text) <= 60 else text[:57] + "..."


# Measured values, rounded for people.


def rounded_size(size_bytes: float) -> str:
    """A measured size with three digits, in binary units; whole decimal sizes in decimal units.

    >>> rounded_size(16 << 20), rounded_size(1536), rounded_size(100), rounded_size(10**6)
    ('16 MiB', '1.5 KiB', '100 B', '1 MB')
    """
    value = float(size_bytes)
    if value >= 1000 and value % 1000 == 0 and value % 1024:
        return _whole_decimal(int(value))
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{_rounded(value)} {unit}"
        value /= 1024
    return f"{_rounded(value)} TiB"


def _whole_decimal(size_bytes: int) -> str:
    for exponent, unit in ((4, "TB"), (3, "GB"), (2, "MB")):
        if size_bytes % 1000**exponent == 0:
            return f"{size_bytes // 1000**exponent} {unit}"
    return f"{size_bytes // 1000} kB"


def rounded_rate(rate_bps: float) -> str:
    """A measured rate with three digits, in decimal units.

    >>> rounded_rate(200e6), rounded_rate(1e9)
    ('200 Mbit/s', '1 Gbit/s')
    """
    value = rate_bps
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"):
        if abs(value) < 1000:
            return f"{_rounded(value)} {unit}"
        value /= 1000
    return f"{_rounded(value)} Tbit/s"


def rounded_duration(time_s: float) -> str:
    """A measured time with three digits, in seconds, milliseconds or microseconds.

    >>> [rounded_duration(time_s) for time_s in (12.5, 0.671, 0.0301, 0)]
    ['12.5 s', '0.671 s', '30.1 ms', '0 s']
    """
    if time_s >= 0.1 or not time_s:
        return f"{time_s:.3g} s" if time_s < 100 else f"{time_s:.0f} s"
    if time_s >= 1e-3:
        return f"{time_s * 1e3:.3g} ms"
    return f"{time_s * 1e6:.3g} µs"


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
