"""Names as text, and what they mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet._native import _core
from innet.observe.packets.names import meaning_of, name_value, uri_of

from .strategies import names


@given(names())
def test_text_equals_that_of_the_engine_and_round_trips(value: bytes) -> None:
    text = uri_of(value)
    if text.count("params-sha256=") < 2:  # which is no name
        assert name_value(text) == value
        assert str(_core.Name.from_value(value)) == text


@given(st.binary(max_size=40))
def test_any_bytes_have_a_text(value: bytes) -> None:
    assert uri_of(value).startswith("/")


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("/t/g0/3/sum.f32/seq=41/seg=9", "sum.f32 from rank 3, operation 41, segment 9"),
        ("/t/g0/6-1/sum.f32.of-c3/seq=4/seg=0", "sum.f32.of-c3 of ranks 6 to 1, operation 4"),
        ("/t/g0/rounds/3/ready/seq=2/seg=0", "rank 3 is ready for round 2"),
        ("/t/g0/rounds/0/set/seq=2/seg=0", "who is in round 2"),
        ("/t/g0/p2p/1/f32/2/0/seq=5/seg=7", "message 5 from 1 to 2, segment 7"),
        ("/t/g0/p2p/2/receipt/of-1/0/seq=5/seg=0", "receipt of 2 for message 5 from 1"),
        ("/t/g0/obj/1/model/w/seg=3", "segment 3 of an object of rank 1"),
        ("/t/g0/obj/1/model/w/32=manifest/seg=0", "manifest 0 of an object of rank 1"),
        ("/t/g0/arrays/1/snapshot/0/w/seq=8/seg=0", "version 8 of an array of rank 1"),
        ("/t/g0/arrays/2/request/1/seq=3/seg=0", "request 3 of rank 2 to rank 1"),
        ("/t/g0/arrays/1/reply/2/seq=3/seg=0", "reply 3 of rank 1 to rank 2"),
        ("/t/g0/obj/1/w/seg=3/sha256digest=" + "ab" * 32, "segment 3 of an object of rank 1"),
        (f"/kv/{'0a' * 16}/ff00/bf16/0-31/{'0b' * 32}/seg=4", "block of layers 0 to 31, segment 4"),
        ("/n/s0/KEY/j1/anchor/v=1", "key of node s0 in job j1"),
        ("/localhost/nfd/rib/register/x", "management: rib register"),
        ("/alice/KEY/k1/self/v=1", "certificate"),
    ],
)
def test_names_of_innet_are_explained(uri: str, words: str) -> None:
    assert (meaning_of(uri) or "").startswith(words)


@pytest.mark.parametrize("uri", ["", "/", "/videos/cat.mp4", "/a/b/c/d/seq=1"])
def test_other_names_are_not(uri: str) -> None:
    assert meaning_of(uri) is None
