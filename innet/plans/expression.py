"""Cyclic intervals of ranks: the ``<ranks>`` component of a reduction's name.

Ranks stand on a circle ``0, 1, …, N-1, 0, …``. An interval is written ``"3"`` (one rank) or
``"a-b"`` (the ranks ``a, a+1, …, b`` modulo N), so ``"6-1"`` of eight ranks is 6, 7, 0, 1 and the
full circle that starts at ``a`` is ``"a-(a-1)"``. Every interval has exactly one spelling.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from innet.errors import PlanError

_COMPONENT = re.compile(r"(0|[1-9][0-9]{0,8})(?:-(0|[1-9][0-9]{0,8}))?")


@dataclass(frozen=True, order=True, slots=True)
class Interval:
    """The ranks ``first, first+1, …, last`` on the circle of a group's ranks.

    An interval does not know the size of its group; the methods that need it take ``group_size``.

    >>> Interval.parse("6-1").members(8)
    (6, 7, 0, 1)
    """

    first: int
    last: int

    @classmethod
    def single(cls, rank: int) -> Interval:
        """The interval of one rank."""
        return cls(rank, rank)

    @classmethod
    def spanning(cls, first: int, length: int, group_size: int) -> Interval:
        """The ``length`` ranks from ``first`` on, in a group of ``group_size``.

        Raises:
            PlanError: ``length`` is not in ``1..group_size``.
        """
        if not 1 <= length <= group_size:
            raise PlanError(
                f"an interval of {length} ranks does not fit a group of {group_size}; "
                f"choose a length from 1 to {group_size}"
            )
        return cls(first % group_size, (first + length - 1) % group_size)

    @classmethod
    def parse(cls, component: str) -> Interval:
        """Read a name component such as ``"3"`` or ``"6-1"``.

        Raises:
            PlanError: not an interval, or not in its one canonical spelling.
        """
        match = _COMPONENT.fullmatch(component)
        if match is None or match[1] == match[2]:
            raise PlanError(
                f"{component!r} is not an interval of ranks; write one rank as '3' and several as "
                "'0-7', without leading zeros"
            )
        first = int(match[1])
        return cls(first, first if match[2] is None else int(match[2]))

    @property
    def is_single(self) -> bool:
        """Whether the interval is one rank, hence a contribution and not a sum."""
        return self.first == self.last

    def length(self, group_size: int) -> int:
        """Number of ranks in the interval."""
        return (self.last - self.first) % group_size + 1

    def members(self, group_size: int) -> tuple[int, ...]:
        """The ranks in cyclic order, which is the order in which they are added."""
        return tuple((self.first + i) % group_size for i in range(self.length(group_size)))

    def __str__(self) -> str:
        return str(self.first) if self.is_single else f"{self.first}-{self.last}"


def is_partition(parts: Sequence[Interval], whole: Interval, group_size: int) -> bool:
    """Whether ``parts``, from left to right, are ``whole`` cut into consecutive pieces.

    >>> is_partition([Interval(6, 7), Interval(0, 1)], Interval(6, 1), 8)
    True
    """
    expected = whole.first
    for part in parts:
        if part.first != expected:
            return False
        expected = (part.last + 1) % group_size
    total = sum(part.length(group_size) for part in parts)
    return total == whole.length(group_size)
