"""Divides processor time into parts of each operation, packet and byte, as far as data allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TERMS = ("operation", "packet", "byte")

_LEAST_NOISE = 0.03
"""Relative error of a time; few times can agree better by chance."""
_LEAST_ERRORS = 2.0
"""A part smaller than so many standard errors counts as zero."""
_COLLINEAR = 1e6


@dataclass(frozen=True)
class ProcessorFit:
    """Time = part of the operation + packets x part of a packet + bytes x part of a byte.

    Attributes:
        parts_s: by term of :data:`TERMS`. A term that is missing cannot be told apart from the
            others, which contain it.
        errors_s: standard error of each.
    """

    parts_s: Mapping[str, float]
    errors_s: Mapping[str, float]


def fit_processor_time(
    times_s: Sequence[float], packets: Sequence[float], sizes_bytes: Sequence[int]
) -> ProcessorFit:
    """Fit the parts by least squares of relative errors, without terms that do not show.

    Where segments have one size, packets are proportional to bytes: then sizes below a segment are
    needed to tell them apart.

    Args:
        times_s: of an operation; at least two, and none is 0.
        packets: of an operation; all 0 where they were not counted.
        sizes_bytes: of an operation.
    """
    counts = np.array([np.ones(len(times_s)), packets, sizes_bytes], float)
    relative = (counts / np.array(times_s)).T
    kept = [place for place in range(len(TERMS)) if relative[:, place].any()]
    if len(kept) > len(times_s) or _collinear(relative[:, kept]):
        kept.remove(TERMS.index("packet"))
    while True:
        parts_s, errors_s = _least_squares(relative[:, kept])
        weakest = int(np.argmin(parts_s / errors_s))
        if len(kept) == 1 or parts_s[weakest] >= _LEAST_ERRORS * errors_s[weakest]:
            break
        del kept[weakest]
    names = [TERMS[place] for place in kept]
    return ProcessorFit(
        dict(zip(names, parts_s.tolist(), strict=True)),
        dict(zip(names, errors_s.tolist(), strict=True)),
    )


def _collinear(columns: npt.NDArray[np.float64]) -> bool:
    return bool(np.linalg.cond(columns / np.linalg.norm(columns, axis=0)) > _COLLINEAR)


def _least_squares(
    columns: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Factors that bring the sum of the columns nearest to 1 in each row, and standard errors."""
    scale = np.linalg.norm(columns, axis=0)
    scaled = columns / scale
    ones = np.ones(len(columns))
    factors = np.linalg.lstsq(scaled, ones, rcond=None)[0]
    spare = len(columns) - len(scale)
    rest = float(np.sum((scaled @ factors - ones) ** 2))
    noise = max(_LEAST_NOISE, (rest / spare) ** 0.5 if spare else 0.0)
    errors = noise * np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled)))
    return factors / scale, errors / scale
