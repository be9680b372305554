"""How much is kept for those who may still ask for it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)


class KeptBytes(Generic[_Key]):
    """Sizes of what is kept, in the order in which it came; the only one is never too much.

    Args:
        most_bytes: of them together.

    >>> kept = KeptBytes[str](most_bytes=5)
    >>> kept.add("a", 3)
    >>> kept.add("b", 3)
    >>> kept.too_many, list(kept.sizes)
    (True, ['a', 'b'])
    """

    def __init__(self, most_bytes: int) -> None:
        self.sizes: dict[_Key, int] = {}
        self._most_bytes = most_bytes
        self._total_bytes = 0

    @property
    def too_many(self) -> bool:
        """Whether something has to go."""
        return len(self.sizes) > 1 and self._total_bytes > self._most_bytes

    def add(self, key: _Key, size_bytes: int) -> None:
        """``key`` is kept from now on; it was not before."""
        self.sizes[key] = size_bytes
        self._total_bytes += size_bytes

    def remove(self, key: _Key) -> bool:
        """``key`` is not kept any more; whether it was."""
        size_bytes = self.sizes.pop(key, None)
        self._total_bytes -= size_bytes or 0
        return size_bytes is not None
