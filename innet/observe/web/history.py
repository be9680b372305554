"""The lines that a server keeps: the last ten minutes, for pages that join later."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from innet.observe.web.document import Line

KEPT_S = 600.0
KEPT_BYTES = 96 * 2**20


@dataclass(frozen=True, slots=True)
class _Kept:
    time_s: float
    text: str


class History:
    """Numbered lines, the oldest of which are dropped by age and by size.

    A reader remembers the number of the next line that it needs; a slow one holds nothing back.
    """

    def __init__(self, kept_s: float = KEPT_S, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_s = kept_s
        self._kept_bytes = kept_bytes
        self._lines: deque[_Kept] = deque()
        self._bytes = 0
        self.first = 0
        """The number of the oldest line that is kept."""

    @property
    def end(self) -> int:
        """One more than the number of the newest line."""
        return self.first + len(self._lines)

    def append(self, line: Line) -> None:
        """Keep a line, and drop those that are too old or too many."""
        text = line.as_json()
        self._lines.append(_Kept(line.time_s, text))
        self._bytes += len(text)
        while len(self._lines) > 1 and self._is_over(line.time_s):
            self._bytes -= len(self._lines.popleft().text)
            self.first += 1

    def _is_over(self, now_s: float) -> bool:
        too_old = self._lines[0].time_s < now_s - self._kept_s
        return too_old or self._bytes > self._kept_bytes

    def since(self, number: int, most: int) -> tuple[int, list[str]]:
        """At most ``most`` lines from ``number`` on, and the number after them.

        A number that is no longer kept, or not of this history, stands for the oldest line.
        """
        begin = number if self.first <= number <= self.end else self.first
        stop = min(self.end, begin + most)
        texts = [self._lines[place - self.first].text for place in range(begin, stop)]
        return stop, texts
