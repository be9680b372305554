"""What a producer says of its object's size is not simply believed."""

from __future__ import annotations

import pytest

from innet.errors import MalformedPacket
from innet.ndn.objects.segments import SegmentQueue


@pytest.mark.parametrize("total", [1, 1 << 62])
def test_fewer_segments_than_have_come_or_more_than_there_can_be_are_refused(total: int) -> None:
    queue = SegmentQueue()
    for segment in range(3):
        assert queue.take() == segment
        queue.arrived(segment, b"")
    with pytest.raises(MalformedPacket, match="FinalBlockId"):
        queue.set_total(total)


def test_what_is_missing_of_a_huge_object_is_told_at_once() -> None:
    queue = SegmentQueue()
    queue.set_total(1 << 32)
    for segment in (2, 3, 7):
        queue.arrived(segment, b"")
    assert queue.missing() == [(0, 1), (4, 6), (8, (1 << 32) - 1)]
