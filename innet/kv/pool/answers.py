"""What a member says to a request: the contents of the object that has the request's name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from innet.kv.pool.network import Contents


@dataclass(frozen=True)
class Answer:
    """What became of a request (see :mod:`innet.kv.requests`).

    Attributes:
        done: whether it was done.
        cause: why not, in a few words.

    Example:
        >>> Answer.decode(Answer(False, "no room").encoded())
        Answer(done=False, cause='no room')
    """

    done: bool
    cause: str = ""

    def encoded(self) -> Contents:
        """A JSON object: ``{"done": false, "cause": "no room"}``."""
        return _encoded(self)

    @classmethod
    def decode(cls, contents: Contents) -> Answer:
        """The answer with these contents; one that cannot be read says that nothing was done."""
        if contents.tobytes() == _DONE_BYTES:
            return DONE
        try:
            found = json.loads(contents.tobytes())
            return cls(found["done"] is True, str(found["cause"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(False, "unreadable")


@lru_cache
def _encoded(answer: Answer) -> Contents:
    text = json.dumps({"done": answer.done, "cause": answer.cause})
    return np.frombuffer(text.encode(), np.uint8)


DONE: Final = Answer(True)
"""What nearly all answers are."""
_DONE_BYTES: Final = DONE.encoded().tobytes()
