"""Bytes that look like packets, more or less."""

from __future__ import annotations

from hypothesis import strategies as st

from innet._native import _core
from innet.observe.packets.tlv import VarNumber
from innet.tlv_numbers import TlvType

_TYPES = sorted(v for k, v in vars(TlvType).items() if not k.startswith("_"))
_COMPONENTS = st.sampled_from([1, 2, 8, 32, 50, 52, 54, 56, 58, 300])

types = st.one_of(st.sampled_from(_TYPES), st.integers(0, 1 << 17))


@st.composite
def var_numbers(draw: st.DrawFn, numbers: st.SearchStrategy[int]) -> bytes:
    """A VAR-NUMBER, now and then in a longer form than needed."""
    number = draw(numbers)
    shortest = VarNumber(number).size_bytes
    return VarNumber(
        number, draw(st.sampled_from([s for s in (1, 3, 5, 9) if s >= shortest]))
    ).encoded()


@st.composite
def elements(draw: st.DrawFn, values: st.SearchStrategy[bytes]) -> bytes:
    """An element whose length is now and then not that of its value."""
    value = draw(values)
    lie = draw(st.sampled_from([0, 0, 0, 0, 1, 5]))
    return draw(var_numbers(types)) + draw(var_numbers(st.just(len(value) + lie))) + value


nested = st.recursive(
    st.binary(max_size=12),
    lambda values: st.lists(elements(values), max_size=5).map(b"".join),
    max_leaves=12,
)


@st.composite
def names(draw: st.DrawFn) -> bytes:
    """The value of a Name element that is right."""
    digest, other = st.binary(min_size=32, max_size=32), st.binary(max_size=9)
    kinds = draw(st.lists(_COMPONENTS, max_size=6))
    parts = [_core.encode_element(kind, draw(digest if kind < 3 else other)) for kind in kinds]
    return b"".join(parts)


packets = st.one_of(
    st.binary(max_size=64),
    elements(nested),
    st.tuples(st.sampled_from([5, 6, 0x64]), nested).map(lambda pair: _core.encode_element(*pair)),
)
"""Garbage, elements inside each other, and such in a packet of a known type."""
