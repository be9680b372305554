"""Near matches of unknown words, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """``"; did you mean 'slots'?"``, or nothing when no known word is near."""
    near = get_close_matches(found, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
