"""Hostile topology, workload and policy files: what is wrong is reported, and nothing else happens.

``python -m tests.fuzz.files RUNS [SEED]`` gives each parser that many texts, and ends with 1 at the
first that raises anything but an error of innet, or takes longer than ten seconds.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from innet.errors import InnetError
from innet.lab.workload.model import parse_workload
from innet.security.trust.policy import Policy
from innet.topology import parse_yaml

_ROOT = Path(__file__).parents[2]
_MOST_SECONDS = 10.0
PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "topologies": (parse_yaml, "topologies/*.yaml"),
    "workloads": (partial(parse_workload, path=_ROOT / "workloads" / "x"), "workloads/*.yaml"),
    "policies": (Policy.of_text, "innet/security/trust/policies/*.lvs"),
}
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


def inputs(pattern: str, seed: int) -> Iterator[str]:
    """Texts without end, bent from the files that ``pattern`` names."""
    mutator = TextMutator([path.read_text() for path in sorted(_ROOT.glob(pattern))], seed)
    while True:
        yield mutator.next()


def finding(parse: Callable[[Any], Any], document: str | bytes) -> str | None:
    """The defect that ``document`` reveals: a traceback, or that it takes too long."""
    began_s = time.monotonic()
    try:
        with contextlib.suppress(InnetError):  # what users get to read
            parse(document)
    except Exception:
        return traceback.format_exc()
    took_s = time.monotonic() - began_s
    return f"it took {took_s:.1f} s" if took_s > _MOST_SECONDS else None


def main() -> int:
    """Try all parsers."""
    runs, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    for name, (parse, pattern) in PARSERS.items():
        for _, text in zip(range(runs), inputs(pattern, seed), strict=False):
            found = finding(parse, text)
            if found is not None:
                print(f"{name}, seed {seed}:\n{text}\n{found}")
                return 1
        print(f"{name}: {runs} texts, seed {seed}: each was read, or refused by an error of innet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
