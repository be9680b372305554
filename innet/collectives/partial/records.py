"""What ranks and their coordinator tell each other about a round (docs/protocol.md)."""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from innet.collectives.partial.policy import KOfN

Bytes = npt.NDArray[np.uint8]

_READY = struct.Struct("<Idd")
READY_BYTES = _READY.size


@dataclass(frozen=True, slots=True)
class Terms:
    """What a rank that is ready for a round says of it.

    Attributes:
        policy: when the round closes; the same on every rank. ``None``: the rank's call has failed,
            and so the round closes at once, with an error for all ranks.
        timeout_s: after which the rank gives up.
    """

    policy: KOfN | None
    timeout_s: float

    def encode(self) -> Bytes:
        """The content of ``ready``."""
        k, deadline_s = (0, 0.0) if self.policy is None else (self.policy.k, self.policy.deadline_s)
        return np.frombuffer(_READY.pack(k, deadline_s, self.timeout_s), np.uint8)

    @classmethod
    def decode(cls, content: Bytes) -> Terms:
        """Read what :meth:`encode` made.

        Raises:
            CollectiveError: there is no such policy.
        """
        k, deadline_s, timeout_s = _READY.unpack(content.tobytes())
        return cls(None if k == 0 else KOfN(k, deadline_s), timeout_s)


class Outcome(enum.IntEnum):
    """How a round was decided."""

    CLOSED = 0
    IN_VAIN = 1
    DISAGREEMENT = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """Who was ready for a round when it was decided; for ever the same.

    Attributes:
        ranks: those who were ready, ascending.
    """

    outcome: Outcome
    ranks: tuple[int, ...]

    def encode(self, size: int) -> Bytes:
        """The content of ``set`` in a group of ``size`` ranks."""
        bits = np.zeros(size, np.bool_)
        bits[list(self.ranks)] = True
        mask = np.packbits(bits, bitorder="little")
        return np.concatenate([np.array([self.outcome], np.uint8), mask])

    @classmethod
    def decode(cls, content: Bytes, size: int) -> Decision:
        """Read what :meth:`encode` made.

        Raises:
            ValueError: there is no such outcome.
        """
        bits = np.unpackbits(content[1:], count=size, bitorder="little")
        return cls(Outcome(int(content[0])), tuple(np.flatnonzero(bits).tolist()))


def decision_bytes(size: int) -> int:
    """Bytes of ``set`` in a group of ``size`` ranks."""
    return 1 + -(-size // 8)


def set_digits(positions: Collection[int]) -> str:
    """A set of positions as names have it.

    >>> set_digits([0, 1, 3])
    'b'
    """
    return f"{sum(1 << position for position in positions):x}"
