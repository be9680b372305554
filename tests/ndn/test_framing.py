"""Packets come out of a stream whole, however it was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import MalformedPacket
from innet.ndn import encode_data
from innet.ndn.face import MAX_ELEMENT_BYTES, StreamFramer


@given(contents=st.lists(st.binary(max_size=600), max_size=5), pieces=st.integers(1, 700))
def test_packets_are_parsed_for_any_split_of_the_stream(contents, pieces):
    packets = [encode_data("/a", content) for content in contents]
    stream = b"".join(packets)
    framer = StreamFramer()
    got = [
        packet
        for start in range(0, len(stream), pieces)
        for packet in framer.feed(stream[start : start + pieces])
    ]
    assert got == packets


@pytest.mark.parametrize(
    "stream",
    [
        b"HTTP/1.1 400 Bad Request",
        b"\x00\x05hello",
        b"\xfd\x00\x05\x00",
        b"\x06\xfe" + (MAX_ELEMENT_BYTES).to_bytes(4),
    ],
)
def test_a_malformed_stream_is_refused_at_once(stream):
    with pytest.raises(MalformedPacket):
        StreamFramer().feed(stream)
