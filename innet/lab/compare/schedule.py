"""What a comparison measures, how often, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from innet.errors import CollectiveError

DEFAULT_SIZES_BYTES = tuple(4096 << (2 * step) for step in range(8))
"""4 KiB to 64 MiB in steps of four."""

_MIN_REPETITIONS = 3
_MAX_REPETITIONS = 30
_SMALL_BYTES = 64 << 10
_SMALL_OPERATIONS = 21
_DEADLINE_S = 30.0
_DEADLINE_BOUNDS = 15


@dataclass(frozen=True)
class Schedule:
    """The sizes and repetitions of a comparison.

    Attributes:
        sizes_bytes: of each rank's tensor, multiples of 4.
        repetitions: timed turns of each method at each size; ``None`` for as many as fit in
            ``budget_s``, at least 3 and at most 30.
        budget_s: time for the timed turns of one method at one size.
    """

    sizes_bytes: tuple[int, ...] = DEFAULT_SIZES_BYTES
    repetitions: int | None = None
    budget_s: float = 3.0

    def __post_init__(self) -> None:
        for size_bytes in self.sizes_bytes:
            if size_bytes <= 0 or size_bytes % 4:
                raise CollectiveError(
                    f"a tensor of {size_bytes} bytes cannot be compared. Give sizes that are "
                    "multiples of 4 bytes."
                )
        if not self.sizes_bytes or (self.repetitions is not None and self.repetitions < 1):
            raise CollectiveError("give at least one size and at least one repetition")

    def turns(self, expected_s: float) -> int:
        """Timed turns of a method, each of which takes about ``expected_s``."""
        if self.repetitions is not None:
            return self.repetitions
        fitting = int(self.budget_s / max(expected_s, 1e-9))
        return min(max(fitting, _MIN_REPETITIONS), _MAX_REPETITIONS)

    def operations(self, size_bytes: int) -> int:
        """Operations in a turn: small ones in a row, or the common start would be most of it."""
        return _SMALL_OPERATIONS if size_bytes <= _SMALL_BYTES else 1

    def deadline_s(self, size_bytes: int, bound_s: float | None) -> float:
        """When a turn counts as hanging: far above anything that still makes progress."""
        return _DEADLINE_S + _DEADLINE_BOUNDS * (bound_s or 0.0) * self.operations(size_bytes)
