"""Segments of an object: their number, the congestion window, timeouts."""

from __future__ import annotations

import pytest

from innet.errors import MalformedPacket
from innet.ndn.objects.segments import CongestionWindow, RetransmissionTimer, SegmentQueue


@pytest.mark.parametrize("total", [1, 1 << 62])
def test_an_impossible_number_of_segments_is_refused(total: int) -> None:
    queue = SegmentQueue()
    for segment in range(3):
        assert queue.take() == segment
        queue.arrived(segment, b"")
    with pytest.raises(MalformedPacket, match="FinalBlockId"):
        queue.set_total(total)


def test_the_missing_segments_of_a_huge_object_are_reported_quickly() -> None:
    queue = SegmentQueue()
    queue.set_total(1 << 32)
    for segment in (2, 3, 7):
        queue.arrived(segment, b"")
    assert queue.missing() == [(0, 1), (4, 6), (8, (1 << 32) - 1)]


def test_each_burst_of_losses_halves_the_window_once():
    window = CongestionWindow(initial=8)
    sent = [window.on_send() for _ in range(8)]
    for _ in range(8):
        window.on_answer()
    assert window.size == 16
    for number in sent:
        window.on_congestion(number)
    assert window.size == 8
    window.on_congestion(window.on_send())
    assert window.size == 4


def test_after_a_loss_the_window_grows_by_one_per_round_trip_up_to_its_limit():
    window = CongestionWindow(initial=8, largest=10)
    window.on_congestion(window.on_send())
    for _ in range(window.size):
        window.on_answer()
    assert window.size in (4, 5)
    for _ in range(1000):
        window.on_answer()
    assert window.size == 10


def test_the_timeout_follows_round_trips_and_doubles_with_each_attempt():
    timer = RetransmissionTimer(initial_s=1, shortest_s=0.01, longest_s=4)
    assert [timer.timeout_s(attempt) for attempt in range(4)] == [1, 2, 4, 4]
    for _ in range(100):
        timer.on_sample(0.1)
    assert 0.1 <= timer.timeout_s(0) < 0.12


def test_a_patient_fetch_never_runs_out_of_timeouts():
    timer = RetransmissionTimer(initial_s=1, longest_s=4)
    assert [timer.timeout_s(attempt) for attempt in (1023, 1024, 100_000)] == [4, 4, 4]
