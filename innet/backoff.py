"""How long to wait before the next attempt."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from attempt to attempt, and varies, so that many clients do not come at once."""

    def __init__(
        self, first_s: float = 0.2, longest_s: float = 10.0, *, variation: float = 0.5
    ) -> None:
        """
        Args:
            first_s: the first pause at its longest.
            longest_s: no pause is longer.
            variation: the share of a pause that may be left out; 0: each is as long as it can be.
        """
        self._least = 1.0 - variation
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The pause before the next attempt, in seconds."""
        pause_s = self._next_s * random.uniform(self._least, 1.0)
        self._next_s = min(2 * self._next_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """An attempt went well."""
        self._next_s = self._first_s
