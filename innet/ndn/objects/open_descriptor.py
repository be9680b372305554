"""Descriptors that threads use: closed with their last reference."""

from __future__ import annotations

import os


class OpenDescriptor:
    """A descriptor that is closed with its last reference: a thread may use it until then, and
    another file may have its number afterwards.

    Attributes:
        number: of the descriptor, which this object takes over.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)
