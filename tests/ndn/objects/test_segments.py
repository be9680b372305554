"""What a producer says of its object's size is not simply believed."""

from __future__ import annotations

import pytest

from innet.errors import MalformedPacket
from innet.ndn.objects.segments import SegmentQueue


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
