import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from innet.errors import MalformedPacket
from innet.ndn import Name
from innet.ndn.sync import Member, StateVector
from tests.ndn.sync.strategies import vectors

A, B, C, AA = (Name(uri) for uri in ("/A", "/B", "/C", "/aa"))
# What NDNts' @ndn/svs 0.0.20250307 encodes; the first four are the specification's example 5.3.
NDNTS = StateVector(
    {
        Member(B, 1636266412): 16,
        Member(A, 1736266473): 1,
        Member(AA, 1): 300,
        Member(A, 1636266330): 10,
        Member(C, 1636266115): 25,
    }
)
NDNTS_BYTES = bytes.fromhex(
    "c952ca1b0703080141d209d4046187715ad6010ad209d404677d52e9d60101ca100703080142d209d404618771ac"
    "d60110ca100703080143d209d40461877083d60119ca0f070408026161d207d40101d602012c"
)


def test_a_vector_is_encoded_as_by_ndnts() -> None:
    assert NDNTS.encode() == NDNTS_BYTES
    assert StateVector.decode(NDNTS_BYTES) == NDNTS


@given(vectors)
def test_a_vector_round_trips(vector: StateVector) -> None:
    assert StateVector.decode(vector.encode()) == vector


@given(vectors, vectors, vectors)
def test_merging_is_commutative_and_idempotent(
    a: StateVector, b: StateVector, c: StateVector
) -> None:
    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))
    assert a.merged(a) == a
    assert a.merged(b).merged(b) == a.merged(b)


@given(vectors, vectors)
def test_a_merged_vector_is_behind_neither_input(a: StateVector, b: StateVector) -> None:
    assert not a.merged(b).outdated_members(a)
    assert not a.merged(b).outdated_members(b)
    behind = a.outdated_members(b)
    assert bool(behind) == (a.merged(b) != a)
    assert all(a.merged(b)[member] == b[member] > a[member] for member in behind)


def test_members_missing_from_a_vector_count_as_zero() -> None:
    vector = StateVector({Member(A, 1): 0})
    assert vector == StateVector()
    assert vector[Member(A, 1)] == 0
    assert StateVector().outdated_members(StateVector({Member(A, 1): 1})) == [Member(A, 1)]


def tlv(kind: int, *parts: bytes) -> bytes:
    """A short element around ``parts``."""
    value = b"".join(parts)
    return bytes([kind, len(value)]) + value


NAME_A = tlv(0x07, tlv(0x08, b"A"))


def life(seq: int) -> bytes:
    return tlv(0xD2, tlv(0xD4, b"\x01"), tlv(0xD6, bytes([seq])))


def test_a_repeated_name_has_its_largest_number() -> None:
    twice = tlv(0xC9, tlv(0xCA, NAME_A, life(7)), tlv(0xCA, NAME_A, life(3)))
    assert StateVector.decode(twice) == StateVector({Member(A, 1): 7})


def test_unknown_non_critical_elements_are_ignored() -> None:
    ignored = tlv(0xF0, b"?")
    with_more = tlv(0xC9, tlv(0xCA, NAME_A, ignored, life(7), ignored), ignored)
    assert StateVector.decode(with_more) == StateVector({Member(A, 1): 7})


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xc9\x01",
        tlv(0xCA),
        tlv(0xC9, tlv(0xCA)),  # an entry without a name
        tlv(0xC9, tlv(0xCA, life(1))),
        tlv(0xC9, tlv(0xCA, NAME_A, tlv(0xD2, tlv(0xD4, b"\x01")))),  # a life without a number
        tlv(0xC9, tlv(0xCA, NAME_A, tlv(0xD2, tlv(0xD6, b"\x01")))),  # ... without a beginning
        tlv(0xC9, tlv(0xCA, NAME_A, tlv(0xD2, tlv(0xD4, b"\x01"), tlv(0xD6)))),
        tlv(0xC9, tlv(0xF1)),  # unknown, and not to be ignored
        tlv(0xC9, tlv(0xCA, NAME_A, tlv(0xF1))),
        tlv(0xC9) + tlv(0xC9),
    ],
)
def test_malformed_vectors_are_refused(damaged: bytes) -> None:
    with pytest.raises(MalformedPacket):
        StateVector.decode(damaged)


@given(vectors, st.data())
def test_changed_bytes_are_a_vector_or_refused(vector: StateVector, data: st.DataObject) -> None:
    encoded = bytearray(vector.encode())
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=9))
    with contextlib.suppress(MalformedPacket):
        decoded = StateVector.decode(bytes(encoded))
        assert StateVector.decode(decoded.encode()) == decoded
