"""Random names and packets, the same for our codec and for others'."""

from __future__ import annotations

from hypothesis import strategies as st

from innet.ndn import Name

_TYPES = st.sampled_from([8, 32, 50, 52, 54, 56, 58, 300, 65535])
components = st.tuples(_TYPES, st.binary(max_size=12))


@st.composite
def names(draw: st.DrawFn, min_size: int = 1) -> Name:
    """Names of any bytes, not only of what people would type."""
    name = Name("/")
    for kind, value in draw(st.lists(components, min_size=min_size, max_size=5)):
        name = name.append(kind, value)
    return name
