"""When a round closes without those who are not ready."""

from __future__ import annotations

from dataclasses import dataclass

from innet.errors import CollectiveError


@dataclass(frozen=True, slots=True)
class KOfN:
    """Wait for ``k`` ranks, and for the others until ``deadline_s`` after the first was ready.

    With ``deadline_s=0`` the first ``k`` are enough: the others are backup workers (Chen et al.
    2016, "Revisiting distributed synchronous SGD").

    Raises:
        CollectiveError: ``k`` is below 1, or the deadline below 0.
    """

    k: int
    deadline_s: float = 0.0

    def __post_init__(self) -> None:
        if self.k < 1 or not self.deadline_s >= 0:
            raise CollectiveError(
                f"{self} is no policy: k must be at least 1, and deadline_s not below 0"
            )
