"""Checks that scapy is installed, which is an optional dependency."""

from __future__ import annotations

from importlib.util import find_spec

from innet.errors import InnetError


def require_scapy() -> None:
    """Require scapy."""
    if find_spec("scapy") is None:
        raise InnetError(
            "reading, dissecting and crafting packets needs scapy, which is not installed. Install "
            "it: pip install 'innet[packets]'."
        )
