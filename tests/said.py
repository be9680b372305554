"""What workers print, for tests that act when something has been said."""

from __future__ import annotations

import asyncio


class Said:
    """What workers have printed, and the moment at which they did."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    def __call__(self, label: str, line: str) -> None:
        self.lines.append((label, line))
        self._changed.set()

    async def until(self, *expected: tuple[str, str]) -> None:
        """Wait until all of these have been said, each a label and a line."""
        while not set(expected) <= set(self.lines):
            self._changed.clear()
            await self._changed.wait()

    async def until_part(self, label: str, words: str) -> None:
        """Wait until ``label`` has said a line with these words."""
        while not any(words in line for line in self.by(label)):
            self._changed.clear()
            await self._changed.wait()

    def by(self, label: str) -> list[str]:
        """What ``label`` has said."""
        return [line for who, line in self.lines if who == label]
