"""Bends texts that people write: lines, words and characters, deterministic from a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_TELLING = (
    *("", " ", "0", "-1", "1e999", "nan", ".inf", "99999999999999999999", "0x10", "1_000", "null"),
    *("true", "~", "{}", "[]", "{a: b}", "[1, 2]", "&a", "*a", "<<: *a", "!!python/name:os.system"),
    *("- ", "? ", ": ", "| ", "> ", "---", "...", "%YAML 9", "\t", "\0", "\ufeff", "é", "\ud7ff"),
    *("h0", "s0", "100mbit", "5ms", "1%", "#rule", '"', "'", "/*", "//", "<=", "$fn()", "_", "&{}"),
    "x" * 5000,
)
_WORD = re.compile(r"\w+|\W")


class TextMutator:
    """Makes inputs of ``seeds``, one to eight changes away."""

    def __init__(self, seeds: Sequence[str], seed: int) -> None:
        self._seeds = seeds
        self._random = random.Random(seed)
        self._changes: tuple[Callable[[list[str]], None], ...] = (
            self._drop,
            self._repeat,
            self._swap,
            self._replace,
            self._insert,
            self._splice,
        )

    def next(self) -> str:
        """Another input."""
        text = self._random.choice(self._seeds)
        for _ in range(self._random.randint(1, 8)):
            parts = self._parts(text)
            self._random.choice(self._changes)(parts)
            text = "".join(parts)
        return text

    def _parts(self, text: str) -> list[str]:
        """The text in lines, words or characters: a change is of one of them."""
        cut = self._random.choice((str.splitlines, _WORD.findall, list))
        return text.splitlines(keepends=True) if cut is str.splitlines else list(cut(text))

    def _place(self, parts: list[str]) -> int:
        return self._random.randrange(len(parts) or 1)

    def _drop(self, parts: list[str]) -> None:
        at = self._place(parts)
        del parts[at : at + self._random.randint(1, 4)]

    def _repeat(self, parts: list[str]) -> None:
        at = self._place(parts)
        parts[at:at] = parts[at : at + 4] * self._random.choice((1, 2, 50))

    def _swap(self, parts: list[str]) -> None:
        if parts:
            a, b = self._place(parts), self._place(parts)
            parts[a], parts[b] = parts[b], parts[a]

    def _replace(self, parts: list[str]) -> None:
        at = self._place(parts)
        parts[at : at + 1] = [self._random.choice(_TELLING)]

    def _insert(self, parts: list[str]) -> None:
        parts.insert(self._place(parts), self._random.choice(_TELLING))

    def _splice(self, parts: list[str]) -> None:
        other = self._random.choice(self._seeds).splitlines(keepends=True)
        at = self._place(other)
        parts[self._place(parts) :] = other[at : at + 10]
