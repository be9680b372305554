"""What a member says to a request: the contents of the object that has the request's name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from innet.kv.pool.network import Contents


@dataclass(frozen=True)
class Answer:
    """What became of a request (see :mod:`innet.kv.requests`).

    Attributes:
        done: whether all of it was done.
        cause: why not, in a few words.
        causes: of a request for several blocks that was not done for all of them, for each why it
            was not, or ``None``.

    Example:
        >>> Answer.decode(Answer(False, "no room").encoded())
        Answer(done=False, cause='no room', causes=())
    """

    done: bool
    cause: str = ""
    causes: tuple[str | None, ...] = ()

    @classmethod
    def of_blocks(cls, causes: Sequence[str | None]) -> Answer:
        """To a request for several blocks."""
        cause = next((cause for cause in causes if cause is not None), None)
        return DONE if cause is None else cls(False, cause, tuple(causes))

    def lack_of(self, index: int) -> str | None:
        """Why it was not done for the block in that place of the request; ``None``: it was."""
        if self.done:
            return None
        return self.causes[index] if index < len(self.causes) else self.cause

    def lacks(self) -> list[str]:
        """Why it was not done, for each block that it was not done for."""
        return [cause for cause in self.causes if cause is not None] or [self.cause]

    def encoded(self) -> Contents:
        """A JSON object: ``{"done": false, "cause": "no room", "causes": []}``."""
        return _encoded(self)

    @classmethod
    def decode(cls, contents: Contents) -> Answer:
        """The answer with these contents; one that cannot be read says that nothing was done."""
        if contents.tobytes() == _DONE_BYTES:
            return DONE
        try:
            found = json.loads(contents.tobytes())
            causes = [cause if cause is None else str(cause) for cause in found["causes"]]
            return cls(found["done"] is True, str(found["cause"]), tuple(causes))
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(False, "unreadable")


@lru_cache
def _encoded(answer: Answer) -> Contents:
    text = json.dumps(asdict(answer))
    return np.frombuffer(text.encode(), np.uint8)


DONE: Final = Answer(True)
"""What nearly all answers are."""
_DONE_BYTES: Final = DONE.encoded().tobytes()
