"""The kind of problem that a text describes: the same for all seeds that fail in the same way."""

from __future__ import annotations

import re

_VARIES = re.compile(r"\d+(\.\d+)?")
_KINDS = (
    "SimulationError: the tables of a node disagree",
    "SimulationError: time stands still",
    "SimulationError: nothing is left to happen",
    "nothing excuses it",
    "not of the family",
    "its deadline was",
    "other bits",
    "differs from another",
    "are left",
)


def kind_of(problem: str) -> str:
    """A name for what has gone wrong."""
    for kind in _KINDS:
        if kind in problem:
            return kind
    return _VARIES.sub("#", problem)[:80]
