"""Sources of hostile inputs: changes of bytes, and of the values of JSON documents."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_CHANGES = 6
_LARGE_BYTES: Final = 1000
_LARGE_ONCE_IN: Final = 256
"""A large lie takes its reader a hundred times as long as any other."""
JSON_TOKENS: Final = (
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"99999999999999999999", b'""', b"{}", b"[]"),
    *(b'"\\ud800"', b'"\\u0000"', b'"\\u001b[2J"', b'"method"', b'"params"', b'"h0"', b"[" * 300),
)
LIES: Final[tuple[Any, ...]] = (
    *(None, True, -1, 1 << 64, 10**400, 1e308, -0.5, 5e-324, "", "x\n[innet] up", "\x1b[2J"),
    *([], [[]], [None] * 3, {}, {"": ""}, {"a": {"b": {}}}, ["s0", 0, 0], "9" * 5000),
    {str(number): number for number in range(5000)},
)
"""Values of JSON that no field expects, and some that a field takes."""


class ByteMutator:
    """Makes inputs of ``seeds``, one to six changes away; a change may insert one of ``tokens``."""

    def __init__(
        self, seeds: Sequence[bytes], seed: int, tokens: Sequence[bytes] = (b"\0", b"\xff")
    ) -> None:
        self._seeds = seeds
        self._tokens = tokens
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """Another input."""
        made = bytearray(self._random.choice(self._seeds))
        for _ in range(self._random.randint(1, _CHANGES)):
            at = self._random.randrange(len(made) + 1)
            size = self._random.choice((1, 1, 2, 8, 64))
            match self._random.randrange(6):
                case 0:
                    del made[at : at + size]
                case 1:
                    made[at:at] = self._random.randbytes(size)
                case 2:
                    made[at : at + size] = self._random.randbytes(len(made[at : at + size]))
                case 3:
                    made[at : at + 1] = bytes([self._random.choice((0, 1, 0x7F, 0x80, 0xFD, 0xFF))])
                case 4:
                    made[at : at + size] = self._random.choice(self._tokens)
                case _:
                    made[at:at] = made[at : at + size]
        return bytes(made)


class JsonMutator:
    """Makes inputs from seeds that end in a JSON object; of other seeds, bytes alone are changed.

    One to six values are replaced by a lie or by another value of the document, or are missing;
    in one input of four, bytes are changed. The documents are encoded once: a change is of text.
    """

    def __init__(self, seeds: Sequence[bytes], seed: int) -> None:
        self._documents = [_Document.of(text) for text in seeds if b"{" in text]
        self._bytes = ByteMutator(seeds, seed, JSON_TOKENS)
        self._random = random.Random(seed)
        encoded = [json.dumps(lie).encode() for lie in LIES]
        self._lies = [lie for lie in encoded if len(lie) < _LARGE_BYTES]
        self._large = [lie for lie in encoded if len(lie) >= _LARGE_BYTES]

    def next(self) -> bytes:
        """Another input."""
        choice = self._random.choice
        if choice((False, False, False, True)):
            return self._bytes.next()
        document = choice(self._documents)
        text, pieces, end = document.text, list[bytes](), 0
        changes = choice(range(1, _CHANGES + 1))
        for begin, until in sorted([choice(document.spans) for _ in range(changes)]):
            if begin < end:  # in a value that is replaced
                continue
            pieces += (text[end:begin], self._instead(document, begin))
            end = until
        return b"".join((*pieces, text[end:]))

    def _instead(self, document: _Document, begin: int) -> bytes:
        """The text for a span: nothing for an entry, whose span has its comma or its key."""
        if begin in document.entries:
            return b""
        number = self._random.randrange(_LARGE_ONCE_IN)
        if not number:
            return self._random.choice(self._large)
        if number < _LARGE_ONCE_IN // 4:
            begin, end = self._random.choice(document.values)
            return document.text[begin:end]
        return self._random.choice(self._lies)


@dataclass
class _Document:
    """A seed, and where its values and the entries of its objects and arrays are."""

    text: bytes
    values: list[tuple[int, int]] = field(default_factory=list)
    entries: set[int] = field(default_factory=set)
    spans: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, seed: bytes) -> _Document:
        """The document of a seed, which may begin with other bytes."""
        at = seed.index(b"{")
        made = cls(seed[:at])
        made._add(json.loads(seed[at:]))
        return made

    def _add(self, value: Any) -> None:
        begin = len(self.text)
        if isinstance(value, dict):
            keys = [f"{json.dumps(key)}:".encode() for key in value]
            self._add_entries(b"{", keys, list(value.values()), b"}")
        elif isinstance(value, list):
            self._add_entries(b"[", [b""] * len(value), value, b"]")
        else:
            self.text += json.dumps(value).encode()
        self.values.append((begin, len(self.text)))
        self.spans.append(self.values[-1])

    def _add_entries(
        self, opening: bytes, keys: Sequence[bytes], values: Sequence[Any], closing: bytes
    ) -> None:
        self.text += opening
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            begin = len(self.text)
            self.text += (b"," if number else b"") + key
            self._add(value)
            if number:  # without the first one, the document would begin with a comma
                self.entries.add(begin)
                self.spans.append((begin, len(self.text)))
        self.text += closing
