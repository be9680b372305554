"""What all policies have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar


class EvictionPolicy(ABC):
    """Knows the blocks of one store, and says which of them goes next.

    Blocks have names, any bytes that tell them apart. ``depth`` is a block's place in its prompt,
    0 for the first; ``size`` what it takes of the store's capacity, in the capacity's unit.

    Attributes:
        newest_stays: no block is the victim before those that were there when it came.
    """

    newest_stays: ClassVar[bool] = False

    @abstractmethod
    def insert(self, block: bytes, depth: int, size: int = 1) -> None:
        """A block that was not there is kept from now on."""

    @abstractmethod
    def use(self, block: bytes) -> None:
        """A block that is there was asked for."""

    @abstractmethod
    def demote(self, block: bytes) -> None:
        """A block that is there is the next victim, unless it is used before."""

    @abstractmethod
    def remove(self, block: bytes) -> None:
        """A block that is there goes, for another reason than want of room."""

    @abstractmethod
    def take_victim(self) -> bytes:
        """The block to drop now, which is forgotten by this; there must be one."""
