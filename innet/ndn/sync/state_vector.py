"""State vectors: the last sequence number of every member (SVS version 3, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from innet._native import _core
from innet.names import Name
from innet.ndn import wire
from innet.tlv_numbers import TlvType

_STATE_VECTOR = 201
_STATE_VECTOR_ENTRY = 202
_SEQ_NO_ENTRY = 210
_BOOTSTRAP_TIME = 212
_SEQ_NO = 214


class Member(NamedTuple):
    """One lifetime of a member's state; a member that lost its state starts a new one.

    Attributes:
        node: the member's name.
        bootstrap_s: when this life began, in seconds since 1970.
    """

    node: Name
    bootstrap_s: int


class StateVector:
    """Sequence numbers by member; a member that is not in it counts as 0.

    Merging takes the larger number of each member: in whatever order, and however often.

    >>> alice = Member(Name("/alice"), 1700000000)
    >>> StateVector({alice: 3}).merged(StateVector({alice: 2}))[alice]
    3
    """

    def __init__(self, numbers: Mapping[Member, int] | None = None) -> None:
        self._numbers = {member: seq for member, seq in (numbers or {}).items() if seq > 0}

    def __getitem__(self, member: Member) -> int:
        return self._numbers.get(member, 0)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateVector) and self._numbers == other._numbers

    def __hash__(self) -> int:
        return hash(frozenset(self._numbers.items()))

    def __repr__(self) -> str:
        entries = ", ".join(
            f"{member.node}@{member.bootstrap_s}: {seq}" for member, seq in self._numbers.items()
        )
        return f"StateVector({{{entries}}})"

    def merged(self, other: StateVector) -> StateVector:
        """The vector with the larger number of each member."""
        members = self._numbers.keys() | other._numbers.keys()
        return StateVector({member: max(self[member], other[member]) for member in members})

    def with_number(self, member: Member, seq: int) -> StateVector:
        """This vector with another number of one member."""
        return StateVector(self._numbers | {member: seq})

    def outdated_members(self, other: StateVector) -> list[Member]:
        """Members with a higher number in ``other``; none when this vector is up to date."""
        return [member for member in other if self[member] < other[member]]

    def encode(self) -> bytes:
        """The StateVector element: names in canonical order, lives of a name by their time."""
        lives: dict[Name, list[tuple[int, int]]] = {}
        for member, seq in self._numbers.items():
            lives.setdefault(member.node, []).append((member.bootstrap_s, seq))
        entries = [
            _core.encode_element(
                _STATE_VECTOR_ENTRY,
                _core.encode_element(TlvType.NAME, node.value())
                + b"".join(_encode_life(*life) for life in sorted(lives[node])),
            )
            for node in sorted(lives, key=Name.value)
        ]
        return _core.encode_element(_STATE_VECTOR, b"".join(entries))

    @classmethod
    def decode(cls, element: bytes) -> StateVector:
        """Read a StateVector element.

        Raises:
            MalformedPacket: it is not a state vector.
        """
        return wire.parsed(cls._decode, element)

    @classmethod
    def _decode(cls, element: bytes) -> StateVector:
        ((kind, value),) = _core.read_elements(element)
        if kind != _STATE_VECTOR:
            raise ValueError("not a StateVector")
        numbers: dict[Member, int] = {}
        for entry_kind, entry in _core.read_elements(value):
            if entry_kind != _STATE_VECTOR_ENTRY:
                _skip(entry_kind)
                continue
            for member, seq in _decode_entry(entry):
                numbers[member] = max(numbers.get(member, 0), seq)
        return cls(numbers)


def _encode_life(bootstrap_s: int, seq: int) -> bytes:
    return _core.encode_element(
        _SEQ_NO_ENTRY,
        _core.encode_number_element(_BOOTSTRAP_TIME, bootstrap_s)
        + _core.encode_number_element(_SEQ_NO, seq),
    )


def _decode_entry(entry: bytes) -> Iterator[tuple[Member, int]]:
    elements = _core.read_elements(entry)
    if not elements or elements[0][0] != TlvType.NAME:
        raise ValueError("an entry begins with a Name")
    node = Name.from_value(elements[0][1])
    for kind, life in elements[1:]:
        if kind != _SEQ_NO_ENTRY:
            _skip(kind)
            continue
        found = dict(_core.read_elements(life))
        if not {_BOOTSTRAP_TIME, _SEQ_NO} <= found.keys():
            raise ValueError("a SeqNoEntry has a BootstrapTime and a SeqNo")
        bootstrap_s = _core.read_number(found[_BOOTSTRAP_TIME])
        yield Member(node, bootstrap_s), _core.read_number(found[_SEQ_NO])


def _skip(kind: int) -> None:
    """Pass over an element that is unknown and may be ignored (packet format, section 1.3)."""
    if kind <= 31 or kind % 2:
        raise ValueError(f"unknown element {kind}")
