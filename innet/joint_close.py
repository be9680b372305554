"""Objects that all ranks close together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class JointlyClosed(ABC):
    """As a context it is closed at the end, but not after an error.

    To close it is joint work of all ranks. After an error on one of them it would wait for others
    that may never come, and the error would not be seen.
    """

    @abstractmethod
    def close(self) -> None:
        """Do this rank's part of the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
