"""All ranks of a masked round in one place, without a network between them."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

import numpy as np

from innet.collectives.masked.fixed_point import FixedPoint
from innet.collectives.masked.masked_round import MaskedRound

SIZE = 5


class Ranks:
    """All ranks of a round, and what they have said up to the masked residues."""

    def __init__(self, values: Sequence[np.ndarray], threshold: int, seed: int = 0) -> None:
        count = len(values)
        self.threshold = threshold
        self.point = FixedPoint.of(values[0].dtype, count, 100.0)
        source = random.Random(seed)
        self.parts = [
            MaskedRound(rank, count, threshold, b"test", source.randbytes) for rank in range(count)
        ]
        self.advertised = [part.advertise() for part in self.parts]
        self.dealt = [part.deal(self.advertised) for part in self.parts]
        for rank, part in enumerate(self.parts):
            part.receive(self.dealt_to(rank))
        self.residues = [self.point.encode(value) for value in values]
        self.masked = [
            part.mask(residues, self.point)
            for part, residues in zip(self.parts, self.residues, strict=True)
        ]

    def dealt_to(self, rank: int) -> list[bytes]:
        """The messages with shares for one rank, by dealer."""
        return [messages[rank] for messages in self.dealt]

    def revealed(
        self, included: Collection[int], left: Collection[int] | None = None
    ) -> dict[int, dict[int, bytes]]:
        """By rank that is left, what it reveals to each other one, when all agree."""
        left = included if left is None else left
        signatures = {rank: self.parts[rank].sign(included) for rank in left}
        return {rank: self.parts[rank].reveal(signatures) for rank in left}

    def sums(
        self, included: Collection[int], left: Collection[int] | None = None
    ) -> dict[int, np.ndarray]:
        """By rank that is left, what it unmasks of the sum of the included ranks."""
        sealed = self.revealed(included, left)
        total = np.add.reduce([self.masked[rank] for rank in included])
        return {
            rank: self.point.decode(
                self.parts[rank].unmask(
                    total,
                    self.point,
                    {other: sealed[other][rank] for other in sealed if other != rank},
                )
            )
            for rank in sealed
        }


def whole_numbers(count: int, seed: int = 1) -> list[np.ndarray]:
    """Values of each rank."""
    return list(np.random.default_rng(seed).integers(-100, 101, (count, SIZE)))
