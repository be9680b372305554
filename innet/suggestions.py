"""Near matches of unknown words, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHORT = 3
_SIMILARITY = 0.6
_SIMILARITY_OF_SHORT_WORDS = 0.5
"""One wrong letter of two, as in ``uo`` for ``up``."""


def near_words(found: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known words most similar to ``found``, the most similar first.

    >>> near_words("uo", ["run", "up"]), near_words("dwon", ["down"]), near_words("zzz", ["up"])
    (['up'], ['down'], [])
    """
    cutoff = _SIMILARITY_OF_SHORT_WORDS if len(found) <= _SHORT else _SIMILARITY
    by_lower_case = {word.lower(): word for word in known}
    near = get_close_matches(found.lower(), list(by_lower_case), most, cutoff)
    return [by_lower_case[word] for word in near]


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """``"; did you mean 'slots'?"``, or nothing when no known word is near."""
    near = near_words(found, known)
    return f"; did you mean {near[0]!r}?" if near else ""
