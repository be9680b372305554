"""Key-value pairs of one rank or of a result: sorted by mixed key, each key once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from innet.collectives.keyed.layout import VALUE_TYPES, PairLayout
from innet.collectives.keyed.mixing import MIXERS, KeyMixer
from innet.errors import CollectiveError, ReductionOverflow

Array = npt.NDArray[Any]

_KEY_TYPES = ("uint64", "uint32", "int64", "int32")

_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "prod": np.multiply,
}


@dataclass(frozen=True)
class PairType:
    """What pairs are made of.

    Attributes:
        key: the caller's type of keys.
        value: type of the values.
    """

    key: np.dtype[Any]
    value: np.dtype[Any]

    @classmethod
    def of(cls, keys: Array, values: Array) -> PairType:
        """The type of two arrays of equal length.

        Raises:
            CollectiveError: they are no pairs that can be reduced.
        """
        if keys.ndim != 1 or values.ndim != 1 or len(keys) != len(values):
            raise CollectiveError(
                f"keys of shape {keys.shape} and values of shape {values.shape} are no pairs; "
                "pass two one-dimensional arrays of equal length"
            )
        if keys.dtype.name not in _KEY_TYPES:
            raise CollectiveError(
                f"keys of {keys.dtype} cannot be reduced; types: {', '.join(_KEY_TYPES)}. Hash "
                "words to uint64 first."
            )
        if values.dtype.name not in VALUE_TYPES:
            raise CollectiveError(
                f"values of {values.dtype} cannot be reduced; types: {', '.join(VALUE_TYPES)}. "
                "Convert with values.astype()."
            )
        if keys.dtype.kind == "i" and len(keys) and keys.min() < 0:
            raise CollectiveError(f"key {keys.min()} is negative; keys are numbers from 0 on")
        return cls(keys.dtype, values.dtype)

    @property
    def mixer(self) -> KeyMixer:
        """How keys are mixed."""
        return MIXERS[self.key.itemsize]

    @property
    def layout(self) -> PairLayout:
        """What they take on the wire."""
        return PairLayout(self.mixer.dtype, self.value)


@dataclass(frozen=True)
class Pairs:
    """Pairs of one rank, or of a result: mixed keys, strictly ascending, and their values."""

    type: PairType
    mixed: Array
    values: Array

    @classmethod
    def combined(cls, keys: Array, values: Array, op: str) -> Pairs:
        """Sort pairs and reduce those of equal keys, in the order in which they are given.

        Raises:
            CollectiveError: unknown operation, or no pairs.
            ReductionOverflow: an integer left its type.
        """
        if op not in _COMBINE:
            raise CollectiveError(f"unknown reduction {op!r}; known: {', '.join(_COMBINE)}")
        pair_type = PairType.of(keys, values)
        mixer = pair_type.mixer
        mixed = mixer.mix(np.ascontiguousarray(keys).view(mixer.dtype))
        order = np.argsort(mixed, kind="stable")
        mixed, values = mixed[order], values[order]
        is_first = np.ones(len(mixed), bool)
        is_first[1:] = mixed[1:] != mixed[:-1]
        if not is_first.all():
            values = _reduce_runs(values, is_first, op)
            mixed = mixed[is_first]
        return cls(pair_type, mixed, values)

    def unmixed(self) -> tuple[Array, Array]:
        """Keys, ascending, and their values."""
        keys = self.type.mixer.unmix(self.mixed)
        order = np.argsort(keys)
        return keys[order].view(self.type.key), self.values[order]


def _reduce_runs(values: Array, is_first: npt.NDArray[np.bool_], op: str) -> Array:
    """Each run of ``values`` reduced from left to right."""
    run = np.cumsum(is_first) - 1
    if values.dtype.kind == "i" and op in ("sum", "prod") and _may_overflow(values, run, op):
        # Python's own integers cannot wrap around.
        exact = values[is_first].astype(object)
        _COMBINE[op].at(exact, run[~is_first], values[~is_first].astype(object))
        limits = np.iinfo(values.dtype)
        if max(exact) > limits.max or min(exact) < limits.min:
            raise ReductionOverflow(
                f"the {op} of one rank's values for a key leaves the range of {values.dtype}; "
                "scale the values first"
            )
        return exact.astype(values.dtype)
    reduced: Array = values[is_first]
    # Overflow to infinity and NaN are results here, not accidents.
    with np.errstate(all="ignore"):
        _COMBINE[op].at(reduced, run[~is_first], values[~is_first])
    return reduced


def _may_overflow(values: Array, run: Array, op: str) -> bool:
    largest = max(abs(int(values.max())), abs(int(values.min())))
    longest = int(np.bincount(run).max())
    bound = largest * longest if op == "sum" else max(1, largest) ** min(longest, 64)
    return bound > np.iinfo(values.dtype).max
