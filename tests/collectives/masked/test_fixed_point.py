"""Values as residues: what comes back is the sum."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from innet.collectives.masked.fixed_point import FixedPoint
from innet.errors import CollectiveError

LIMIT = 16.0


@st.composite
def contributions(draw: st.DrawFn) -> list[np.ndarray]:
    dtype = np.dtype(draw(st.sampled_from(["f2", "f4", "f8", "i1", "i4", "i8", "u2"])))
    if dtype.kind == "f":
        width: Any = 8 * dtype.itemsize
        elements: st.SearchStrategy[float] = st.floats(-LIMIT, LIMIT, width=width)
    else:
        elements = st.integers(0 if dtype.kind == "u" else -int(LIMIT), int(LIMIT))
    size = draw(st.integers(0, 20))
    ranks = draw(st.integers(1, 33))
    return [draw(hnp.arrays(dtype, size, elements=elements)) for _ in range(ranks)]


@given(contributions())
def test_the_sum_of_residues_is_the_sum_of_values(values):
    ranks = len(values)
    point = FixedPoint.of(values[0].dtype, ranks, LIMIT)
    residues = [point.encode(value) for value in values]
    most = sum(int(residue.max(initial=0)) for residue in residues)
    assert most < 2 ** (8 * point.wire.itemsize)  # no node ever sees a sum overflow
    total = np.add.reduce([point.reduced(residue) for residue in residues])
    decoded = point.decode(total)
    exact = np.add.reduce([value.astype(np.float64) for value in values])
    if values[0].dtype.kind == "f":
        rounding = np.abs(exact) * float(np.finfo(values[0].dtype).eps)
        assert (np.abs(decoded - exact) <= ranks * point.resolution / 2 + rounding).all()
    else:
        assert decoded.dtype == np.int64
        assert (decoded == exact).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 16.1, -17.0])
def test_values_without_a_residue_are_refused(value):
    point = FixedPoint.of("f4", 8, LIMIT)
    with pytest.raises(CollectiveError, match="beyond limit=16"):
        point.encode(np.array([0.0, value], np.float32))


@pytest.mark.parametrize(
    ("dtype", "limit"), [("c8", 1.0), ("O", 1.0), ("f4", 0.0), ("f4", np.inf), ("i8", 2.0**62)]
)
def test_types_and_limits_without_a_ring_are_refused(dtype, limit):
    with pytest.raises(CollectiveError):
        FixedPoint.of(dtype, 8, limit)


def test_steps_of_eight_ranks_are_finer_than_float32_at_the_limit():
    point = FixedPoint.of("f4", 8, 1.0)
    assert point.resolution <= np.spacing(np.float32(0.5))


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 9, 700, 1000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_at_the_limit_do_not_change_their_sign(dtype, ranks):
    bits = np.dtype(dtype).itemsize * 8 - (ranks - 1).bit_length()
    limit = (2.0 ** min(bits - 1, 52) - 1) / ranks  # no room is left above it
    point = FixedPoint.of(dtype, ranks, limit)
    for sign in (1, -1):
        residues = point.encode(np.full(1, sign * limit, dtype))
        total = point.decode(point.reduced(residues * residues.dtype.type(ranks)))
        tolerance = ranks * point.resolution
        assert total[0] == pytest.approx(sign * limit * ranks, abs=tolerance)
