"""Near matches of unknown words, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SHORT = 3
_SIMILARITY = 0.6
_SIMILARITY_OF_SHORT_COMMANDS = 0.5
"""One wrong letter of two, as in ``uo`` for ``up``."""


def near_commands(found: str, commands: Iterable[str]) -> list[str]:
    """Up to three commands, the most similar to ``found`` first.

    >>> near_commands("uo", ["run", "up"]), near_commands("dwon", ["down"])
    (['up'], ['down'])
    """
    is_short = len(found) <= _SHORT
    return _near(found, commands, 3, _SIMILARITY_OF_SHORT_COMMANDS if is_short else _SIMILARITY)


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """``"; did you mean 'slots'?"``, or nothing when no known word is near.

    >>> did_you_mean("slits", ["slots"]), did_you_mean("s1", ["s0"])  # names of nodes are alike
    ("; did you mean 'slots'?", '')
    """
    near = _near(found, known, 1, _SIMILARITY)
    return f"; did you mean {near[0]!r}?" if near else ""


def _near(found: str, known: Iterable[str], most: int, similarity: float) -> list[str]:
    by_lower_case = {word.lower(): word for word in known}
    return [
        by_lower_case[word]
        for word in get_close_matches(found.lower(), list(by_lower_case), most, similarity)
    ]
