"""Numbers as residues: masked values must be uniform in a ring, which floating point is not.

Residues are modulo a power of two that leaves room for the sum of all ranks in an unsigned integer
of the wire. So sums stay within their type on every node, as all integer sums must, and each rank
reduces the sum of all ranks once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from innet.errors import CollectiveError

Residues: TypeAlias = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]
Values: TypeAlias = npt.NDArray[np.generic]

_MANTISSA_BITS = 52
"""Bits of a double's mantissa: values are scaled as doubles, which would round larger integers."""


def require_limit(limit: float) -> None:
    """Check a largest magnitude of values.

    Raises:
        CollectiveError: it is not above 0, or not finite.
    """
    if not 0 < limit < np.inf:
        raise CollectiveError(
            f"limit={limit} bounds nothing; give the largest magnitude of a value, above 0"
        )


@dataclass(frozen=True)
class FixedPoint:
    """How values of one type become residues, and a sum of residues a value again.

    Attributes:
        dtype: of the values.
        ranks: that add at most.
        ring_bits: residues are modulo ``2**ring_bits``.
        wire: type of the residues: with room for ``ranks`` of them.
        scale: a value is worth this many units; a power of two, 1 for integers.
        limit: largest magnitude of one rank's value.
    """

    dtype: np.dtype[np.generic]
    ranks: int
    ring_bits: int
    wire: np.dtype[np.uint32] | np.dtype[np.uint64]
    scale: float
    limit: float

    @classmethod
    def of(cls, dtype: npt.DTypeLike, ranks: int, limit: float) -> FixedPoint:
        """Fixed point for values up to ``limit``: integers exactly, others as finely as fits.

        Types of up to 32 bits of floating point go into 32 bits on the wire, all others into 64.

        Raises:
            CollectiveError: the type has no sum, or the limit leaves no room for one.

        >>> FixedPoint.of("f4", ranks=8, limit=1.0).scale
        33554432.0
        """
        given = np.dtype(dtype)
        if given.kind not in "fiu" or given.itemsize > 8:
            raise CollectiveError(
                f"arrays of {given} have no masked sum; give integers, or floating point of up to "
                "64 bits"
            )
        require_limit(limit)
        if given.kind == "f":  # a value clipped to the limit may be rounded up by the type
            limit = float(np.asarray(limit, given))
        small = given.kind == "f" and given.itemsize <= 4
        wire = np.dtype(np.uint32) if small else np.dtype(np.uint64)
        ring_bits = wire.itemsize * 8 - (ranks - 1).bit_length()
        largest_sum = (1 << (ring_bits - 1)) - 1
        if given.kind != "f":
            if ranks * limit > largest_sum:
                raise CollectiveError(
                    f"sums of {ranks} ranks with limit={limit:g} exceed {largest_sum}; give a "
                    "smaller limit"
                )
            return cls(given, ranks, ring_bits, wire, 1.0, limit)
        room = min(largest_sum, 1 << _MANTISSA_BITS) // ranks  # whole: rounding stays below it
        scale = 2.0 ** np.floor(np.log2(room) - np.log2(limit))
        if not 0 < scale < np.inf or limit * scale < 1:
            raise CollectiveError(f"limit={limit:g} cannot be scaled; give one nearer to 1")
        return cls(given, ranks, ring_bits, wire, float(scale), limit)

    @property
    def resolution(self) -> float:
        """The step of the values; one rank's part is off by half of it at most."""
        return 1.0 / self.scale

    @property
    def sum_dtype(self) -> np.dtype[np.generic]:
        """Type of a sum."""
        return self.dtype if self.dtype.kind == "f" else np.dtype(np.int64)

    def check(self, values: Values) -> None:
        """Check that ``values`` have residues.

        Raises:
            CollectiveError: a value is larger than the limit, or no number.
        """
        if values.size == 0:
            return
        magnitude = np.maximum(-float(values.min()), float(values.max()))  # NaN if there is one
        if not magnitude <= self.limit:
            raise CollectiveError(
                f"a value of magnitude {magnitude:g} is beyond limit={self.limit:g}: masked sums "
                "are in fixed point, and have no infinity. Clip the values, or raise the limit"
            )

    def encode(self, values: Values) -> Residues:
        """The residues of ``values``, in a new array.

        Raises:
            CollectiveError: a value is larger than the limit, or no number.
        """
        self.check(values)
        if self.dtype.kind == "f":
            scaled = np.multiply(values, self.scale, dtype=np.float64)
            whole = np.rint(scaled, out=scaled).astype(np.int64)
        else:
            whole = values.astype(np.int64)
        modulo_2_64 = whole.view(np.uint64)
        return self.reduced(modulo_2_64 if self.wire == np.uint64 else modulo_2_64.astype("u4"))

    def reduced(self, residues: Residues) -> Residues:
        """The residues modulo ``2**ring_bits``."""
        modulus_mask = self.wire.type((1 << self.ring_bits) - 1)
        return np.bitwise_and(residues, modulus_mask)

    def decode(self, total: Residues) -> Values:
        """The sum whose residues these are; a sum of floating point is a double rounded once."""
        half = np.uint64(1 << (self.ring_bits - 1))
        mask = np.uint64((1 << self.ring_bits) - 1)
        whole = (((total.astype(np.uint64) + half) & mask) - half).view(np.int64)
        return (whole / self.scale if self.dtype.kind == "f" else whole).astype(self.sum_dtype)
