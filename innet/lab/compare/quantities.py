"""Measured numbers with units, rounded for people; :mod:`innet.quantities` is exact."""

from __future__ import annotations


def format_bytes(size_bytes: float) -> str:
    """Binary units, as sizes of tensors and queues are given; decimal ones where these are round.

    >>> format_bytes(16 << 20), format_bytes(1536), format_bytes(100), format_bytes(10**6)
    ('16 MiB', '1.5 KiB', '100 B', '1 MB')
    """
    value = float(size_bytes)
    if value >= 1000 and value % 1000 == 0 and value % 1024:
        return _round_decimal(int(value))
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{_rounded(value)} {unit}"
        value /= 1024
    return f"{_rounded(value)} TiB"


def _round_decimal(size_bytes: int) -> str:
    for exponent, unit in ((4, "TB"), (3, "GB"), (2, "MB")):
        if size_bytes % 1000**exponent == 0:
            return f"{size_bytes // 1000**exponent} {unit}"
    return f"{size_bytes // 1000} kB"


def format_rate(rate_bps: float) -> str:
    """Decimal bits a second, as rates of links are given.

    >>> format_rate(200e6), format_rate(1e9)
    ('200 Mbit/s', '1 Gbit/s')
    """
    value = rate_bps
    for unit in ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"):
        if abs(value) < 1000:
            return f"{_rounded(value)} {unit}"
        value /= 1000
    return f"{_rounded(value)} Tbit/s"


def format_seconds(time_s: float) -> str:
    """Seconds, milliseconds or microseconds, with three digits.

    >>> format_seconds(0.671), format_seconds(0.0301), format_seconds(12.5)
    ('0.671 s', '30.1 ms', '12.5 s')
    """
    if time_s >= 0.1:
        return f"{time_s:.3g} s" if time_s < 100 else f"{time_s:.0f} s"
    if time_s >= 1e-3:
        return f"{time_s * 1e3:.3g} ms"
    return f"{time_s * 1e6:.3g} µs"


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
