"""A node's kernels and the reference give the same bits, for every type, operation and operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from innet._native import _core
from innet.errors import ReductionOverflow
from innet.plans.element_types import ELEMENT_TYPES, ElementType
from innet.plans.reference import reduce_operands, require_in_range

Array = NDArray[Any]
KINDS = [(op, element) for element in ELEMENT_TYPES.values() for op in element.operations]


def reduce_natively(op: str, element: ElementType, operands: Sequence[Array]) -> Array:
    as_bytes = [np.ascontiguousarray(operand).view(np.uint8) for operand in operands]
    result, carry = _core.reduce(f"{op}.{element.name}", as_bytes)
    assert (carry != 0) == (op == "sum" and not sum_fits(operands))
    return np.frombuffer(result, element.dtype)


def sum_fits(operands: Sequence[Array]) -> bool:
    """Whether a sum of integers fits their type, by the reference; other types always do."""
    try:
        require_in_range(operands)
    except ReductionOverflow:
        return False
    return True


def any_values(element: ElementType, random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Arbitrary bits: every NaN, infinity and subnormal there is. Integers stay small enough that
    sums fit about as often as not."""
    dtype = element.dtype
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    values = random.integers(0, 256, (shape[0], shape[1] * dtype.itemsize), np.uint8).view(dtype)
    if dtype.kind in "iu":
        with np.errstate(divide="ignore"):
            values = values // np.array(shape[0] * random.integers(1, 3), dtype)
    return values


def same_bits(left: Array, right: Array) -> bool:
    """To the bit, but for the payload of NaN, which IEEE 754 leaves open."""
    if left.dtype.kind == "c":
        return same_bits(left.view(left.real.dtype), right.view(right.real.dtype))
    number = left == left
    return (
        bool((number == (right == right)).all())
        and left[number].tobytes() == right[number].tobytes()
    )


@pytest.mark.parametrize(("op", "element"), KINDS, ids=[f"{op}.{e.name}" for op, e in KINDS])
@given(
    seed=st.integers(0, 2**32 - 1),
    operands=st.integers(1, 9),
    elements=st.sampled_from([1, 7, 600]),
)
def test_kernels_agree_with_the_reference(
    op: str, element: ElementType, seed: int, operands: int, elements: int
) -> None:
    values = any_values(element, np.random.default_rng(seed), (operands, elements))
    expected = reduce_operands(list(values), op)
    with np.errstate(all="ignore"):
        assert same_bits(reduce_natively(op, element, list(values)), expected)


@pytest.mark.parametrize(
    ("name", "torch_type"),
    [("f8e4m3fn", torch.float8_e4m3fn), ("f8e5m2", torch.float8_e5m2)],
)
def test_small_floats_are_rounded_as_in_pytorch(name: str, torch_type: torch.dtype) -> None:
    # Every f32 with 12 significant bits and the exponents that matter: the value itself, what lies
    # a bit beside it, and all halves between two codes are among them.
    exponents, mantissas = np.meshgrid(np.arange(127 - 20, 127 + 18), np.arange(1 << 12))
    bits = (exponents.astype(np.uint32) << 23) | (mantissas.astype(np.uint32) << 11)
    values = bits.view(np.float32).reshape(-1)
    values = np.concatenate([values, -values, np.array([np.inf, -np.inf, np.nan], np.float32)])
    expected = torch.from_numpy(values).to(torch_type).view(torch.uint8).numpy()
    dtype = ELEMENT_TYPES[name].dtype
    with np.errstate(all="ignore"):
        here = values.astype(dtype)
    # In the type without infinity, PyTorch makes 448 of all that is too large, infinity included;
    # here it becomes NaN, so that nobody takes it for a number.
    too_large = np.isnan(here.astype(np.float32)) & ~np.isnan(values)
    assert (np.abs(values[too_large]) > 464).all()
    assert same_bits(here[~too_large], expected.view(dtype)[~too_large])


def test_invalid_reductions_are_refused() -> None:
    four = np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match=r"no reduction is called avg\.f32"):
        _core.reduce("avg.f32", [four])
    with pytest.raises(ValueError, match="no whole number of elements"):
        _core.reduce("sum.f64", [four])
    with pytest.raises(ValueError, match="differ in size"):
        _core.reduce("sum.f32", [four, np.zeros(8, np.uint8)])
    with pytest.raises(ValueError, match="1 to 32768 operands"):
        _core.reduce("sum.f32", [])
