"""The parts of an operation, a packet and a byte are found where the data has them apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.processor_fit import fit_processor_time

KIB, MIB = 1 << 10, 1 << 20
OPERATION_S, PACKET_S, BYTE_S = 800e-6, 6e-6, 1.5e-9
SIZES = (KIB, 32 * KIB, MIB, 4 * MIB, 16 * MIB)
NOISE = (1.02, 0.98, 1.01, 0.98, 1.01)


def packets_of(sizes: Sequence[int], segment_bytes: int) -> list[float]:
    return [24.0 * -(-size // segment_bytes) for size in sizes]


def times_of(sizes: Sequence[int], packets: Sequence[float]) -> list[float]:
    return [
        noise * (OPERATION_S + count * PACKET_S + size * BYTE_S)
        for noise, count, size in zip(NOISE, packets, sizes, strict=False)
    ]


def test_all_cost_terms_are_found_where_packets_are_not_proportional_to_bytes() -> None:
    # The segments of larger operations are larger, so packets grow less than bytes.
    packets = [24.0, 96.0, 1536.0, 1632.0, 6192.0]
    fit = fit_processor_time(times_of(SIZES, packets), packets, SIZES)
    expected_s = {"operation": OPERATION_S, "packet": PACKET_S, "byte": BYTE_S}
    assert fit.parts_s.keys() == expected_s.keys()
    for term, part_s in expected_s.items():
        assert abs(fit.parts_s[term] - part_s) < 2 * fit.errors_s[term] < 0.7 * part_s, term


def test_without_sizes_below_a_segment_packet_costs_count_as_byte_costs() -> None:
    sizes = [count * 64 * KIB for count in (1, 4, 16, 64, 256)]
    packets = packets_of(sizes, 64 * KIB)
    fit = fit_processor_time(times_of(sizes, packets), packets, sizes)
    assert fit.parts_s.keys() == {"operation", "byte"}
    both_s = BYTE_S + 24 * PACKET_S / (64 * KIB)
    assert fit.parts_s["byte"] == pytest.approx(both_s, rel=0.05)


def test_a_method_without_packet_counts_has_costs_per_operation_and_byte() -> None:
    none = [0.0] * len(SIZES)
    fit = fit_processor_time(times_of(SIZES, none), none, SIZES)
    assert fit.parts_s == pytest.approx({"operation": OPERATION_S, "byte": BYTE_S}, rel=0.05)


def test_a_cost_term_below_the_noise_is_omitted() -> None:
    packets = packets_of(SIZES, 8 * KIB)
    times_s = [
        noise * (OPERATION_S + count * PACKET_S)
        for noise, count in zip(NOISE, packets, strict=True)
    ]
    fit = fit_processor_time(times_s, packets, SIZES)
    assert "byte" not in fit.parts_s
    assert fit.parts_s["packet"] == pytest.approx(PACKET_S, rel=0.1)


def test_two_sizes_give_two_cost_terms() -> None:
    packets = packets_of(SIZES[:2], 8 * KIB)
    fit = fit_processor_time(times_of(SIZES[:2], packets), packets, SIZES[:2])
    assert "packet" not in fit.parts_s
