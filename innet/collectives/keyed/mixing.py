"""Keys on the wire are mixed: a one-to-one map that spreads whatever keys people use evenly.

Mixed keys are what segments are cut by, so the cut needs nothing but counts: ranges of mixed keys
are as full as each other, whether the keys were row numbers, vertices or hashes. Both maps are the
finalisers of well-known hash functions: for 64 bits that of SplitMix64 (Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", OOPSLA 2014, in Stafford's variant 13), for 32
bits that of MurmurHash3 (Appleby).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[Any]


@dataclass(frozen=True)
class KeyMixer:
    """Multiplications between shifts, modulo 2 ** ``bits``.

    Attributes:
        bits: of a key.
        shifts: how far the key is shifted over itself before, between and after the factors.
        factors: odd, so that each has an inverse.
    """

    bits: int
    shifts: tuple[int, int, int]
    factors: tuple[int, int]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The unsigned type of a key."""
        return np.dtype(f"u{self.bits // 8}")

    def mix(self, keys: Keys) -> Keys:
        """The mixed keys of ``keys``, which have :attr:`dtype`."""
        mixed: Keys = keys ^ (keys >> self._word(self.shifts[0]))
        for factor, shift in zip(self.factors, self.shifts[1:], strict=True):
            mixed *= self._word(factor)
            mixed ^= mixed >> self._word(shift)
        return mixed

    def unmix(self, mixed: Keys) -> Keys:
        """The keys that :meth:`mix` gives ``mixed`` for."""
        keys = self._unshift(mixed, self.shifts[2])
        for factor, shift in zip(self.factors[::-1], self.shifts[1::-1], strict=True):
            keys = keys * self._word(pow(factor, -1, 1 << self.bits))
            keys = self._unshift(keys, shift)
        return keys

    def _unshift(self, shifted: Keys, shift: int) -> Keys:
        # The upper bits are right from the start; each round makes `shift` more of them right.
        keys = shifted
        for _ in range(self.bits // shift):
            keys = shifted ^ (keys >> self._word(shift))
        return keys

    def _word(self, value: int) -> Any:
        return self.dtype.type(value)


MIXERS = {
    4: KeyMixer(32, (16, 13, 16), (0x85EBCA6B, 0xC2B2AE35)),
    8: KeyMixer(64, (30, 27, 31), (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)),
}
"""By the size of a key in bytes."""
