"""Where a cluster can keep its blocks: the designs that a replay compares, with the same memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NETWORK: Final = "network"
HOME: Final = "home"
LOCAL: Final = "local"

DESIGNS: Final = {
    NETWORK: "homes, and caches on the way",
    HOME: "every block from its home",
    LOCAL: "every worker for itself",
}
"""The designs by their names, with titles for people."""


@dataclass(frozen=True)
class MemoryShares:
    """How the memory of a cluster is divided: parts of all of it, 1 together.

    Attributes:
        workers: for what each worker itself uses.
        switches: for the caches on the way.
        homes: for blocks that others ask for.
    """

    workers: float
    switches: float
    homes: float

    @classmethod
    def of_design(cls, design: str, workers: float, switches: float) -> MemoryShares:
        """The shares in ``design``, where workers and switches would have these in ``network``.

        >>> MemoryShares.of_design("home", workers=0.25, switches=0.25)
        MemoryShares(workers=0.25, switches=0.0, homes=0.75)
        """
        if design == LOCAL:
            return cls(1.0, 0.0, 0.0)
        on_path = switches if design == NETWORK else 0.0
        return cls(workers, on_path, 1.0 - workers - on_path)
