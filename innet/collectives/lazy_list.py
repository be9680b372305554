"""Lists whose elements are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class LazyList(Sequence[T]):
    """A sequence of ``size`` elements; ``make(index)`` makes each of them once, when needed."""

    def __init__(self, size: int, make: Callable[[int], T]) -> None:
        self._indexes = range(size)
        self._make = make
        self._made: dict[int, T] = {}

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[number] for number in self._indexes[index]]
        number = self._indexes[index]
        if number not in self._made:
            self._made[number] = self._make(number)
        return self._made[number]

    def __len__(self) -> int:
        return len(self._indexes)
