"""The reference: the bits that every run must reproduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from innet.errors import CollectiveError, MismatchError, ReductionOverflow
from innet.plans import Interval, Plan, evaluate, evaluate_allreduce, make_plan
from innet.plans.element_types import ELEMENT_TYPES
from innet.plans.reference import reduce_operands
from innet.topology import Topology

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {name: element.dtype for name, element in ELEMENT_TYPES.items()}
ALGORITHMS = ["inc", "ps", "ring", "halving-doubling"]


def bits(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def by_hand(plan: Plan, interval: Interval, values: list[np.float32]) -> np.float32:
    """The sum of one element, straight from the definition of an expression."""
    if interval.is_single:
        return values[interval.first]
    first, *rest = (by_hand(plan, operand, values) for operand in plan.expression(interval))
    for value in rest:
        first = np.float32(first + value)
    return first


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_floats_are_added_as_the_expression_says(
    algorithm: str, leaf_spine: Callable[..., Topology]
) -> None:
    plan = make_plan(algorithm, leaf_spine(2, 4, 2))
    random = np.random.default_rng(1)
    arrays = [(random.standard_normal(50) * 10**r).astype(np.float32) for r in range(8)]
    for shard in range(len(plan.roots)):
        root = plan.root_for(shard).interval
        expected = [by_hand(plan, root, [a[i] for a in arrays]) for i in range(50)]
        assert bits(evaluate(plan, shard, arrays, "sum")) == bits(np.array(expected))


def test_different_expressions_give_different_bits(star: Callable[..., Topology]) -> None:
    topology = star(4)
    arrays = [np.full(1, v, np.float32) for v in (1e8, 1.0, -1e8, 1.0)]
    results = {a: evaluate(make_plan(a, topology), 0, arrays, "sum")[0] for a in ALGORITHMS}
    assert results == {"inc": 1.0, "ps": 1.0, "ring": 0.0, "halving-doubling": 0.0}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("dtype", "op"),
    [
        (name, op)
        for name, element in ELEMENT_TYPES.items()
        for op in ("sum", "prod", "min", "max")
        if op in element.operations and name != "bool"
    ],
)
def test_every_type_and_operation_agrees_with_exact_arithmetic(
    algorithm: str, dtype: str, op: str, star: Callable[..., Topology]
) -> None:
    plan = make_plan(algorithm, star(4))
    # Small integers and their products are exact in every type.
    arrays = [np.array([1, 1 + r % 2, r, 2]).astype(DTYPES[dtype]) for r in range(4)]
    exact = {
        "sum": [4, 6, 6, 8],
        "prod": [1, 4, 0, 16],
        "min": [1, 1, 0, 2],
        "max": [1, 2, 3, 2],
    }
    result = evaluate_allreduce(plan, arrays, op, segment_elements=1)
    assert result.dtype == DTYPES[dtype]
    assert result.real.astype(np.float64).tolist() == exact[op]


@pytest.mark.parametrize("dtype", sorted(n for n in DTYPES if DTYPES[n].kind in "iu"))
def test_bits_are_combined_bit_by_bit(dtype: str, star: Callable[..., Topology]) -> None:
    plan = make_plan("inc", star(3))
    arrays = [np.array([v, 1], DTYPES[dtype]) for v in (0b0110, 0b0101, 0b0100)]
    for op, expected in {"band": [0b0100, 1], "bor": [0b0111, 1], "bxor": [0b0111, 1]}.items():
        assert evaluate(plan, 0, arrays, op).tolist() == expected


def test_truth_values_are_ored_and_anded(star: Callable[..., Topology]) -> None:
    plan = make_plan("inc", star(3))
    arrays = [np.array(v) for v in ([True, False], [True, False], [False, False])]
    for op in ("sum", "max", "bor"):
        assert evaluate(plan, 0, arrays, op).tolist() == [True, False]
    for op in ("prod", "min", "band"):
        assert evaluate(plan, 0, arrays, op).tolist() == [False, False]
    assert evaluate(plan, 0, arrays, "bxor").tolist() == [False, False]


def test_a_float_without_infinity_becomes_nan_beyond_its_largest_number() -> None:
    dtype = DTYPES["f8e4m3fn"]
    assert float(reduce_operands([np.array([v], dtype) for v in (448, 16, -16)], "sum")[0]) == 448
    assert np.isnan(reduce_operands([np.array([v], dtype) for v in (448, 448)], "sum")[0])


@given(
    st.from_type(Topology),
    st.sampled_from(["inc", "ps", "ring"]),
    st.integers(1, 9),
    st.integers(0, 40),
)
def test_each_segment_is_evaluated_by_its_own_shard(
    topology: Topology, algorithm: str, segment_elements: int, elements: int
) -> None:
    plan = make_plan(algorithm, topology)
    random = np.random.default_rng(elements)
    arrays = [random.standard_normal(elements).astype(np.float32) for _ in plan.ranks]
    whole = evaluate_allreduce(plan, arrays, "sum", segment_elements)
    for segment, start in enumerate(range(0, elements, segment_elements)):
        part = slice(start, start + segment_elements)
        expected = evaluate(plan, segment, [a[part] for a in arrays], "sum")
        assert bits(whole[part]) == bits(expected)


def test_the_shape_is_kept_and_the_input_is_unchanged(star: Callable[..., Topology]) -> None:
    for hosts in (1, 2):
        arrays = [np.ones((2, 3), np.float32) for _ in range(hosts)]
        result = evaluate_allreduce(make_plan("ring", star(hosts)), arrays, "sum", 4)
        assert result.shape == (2, 3)
        result += 1
        of_one_shard = evaluate(make_plan("ring", star(hosts)), 0, arrays, "sum")
        of_one_shard += 1
        assert all((array == 1).all() for array in arrays)


@pytest.mark.parametrize("roots", [["spine0"], ["spine1"]])
def test_placement_does_not_change_a_bit(
    roots: list[str], leaf_spine: Callable[..., Topology]
) -> None:
    topology = leaf_spine(4, 4, 2)
    random = np.random.default_rng(2)
    arrays = [random.standard_normal(1000).astype(np.float32) for _ in range(16)]
    here = make_plan("inc", topology)
    there = make_plan("inc", topology, roots=roots, place={"4-7": "leaf0"})
    assert there.rules != here.rules
    assert bits(evaluate_allreduce(there, arrays, "sum", 64)) == bits(
        evaluate_allreduce(here, arrays, "sum", 64)
    )


@pytest.mark.parametrize(("dtype", "large"), [(np.dtype(np.float16), 2048), (BF16, 256)])
def test_narrow_floats_are_rounded_once_per_node(
    dtype: np.dtype[Any], large: int, leaf_spine: Callable[..., Topology]
) -> None:
    # One is half a unit in the last place of `large`: lost if rounded after every addition.
    arrays = [np.full(1, v).astype(dtype) for v in (large, 1, 1, 0)]
    assert float(reduce_operands(arrays, "sum")[0]) == large + 2
    plan = make_plan("inc", leaf_spine(2, 2, 1))
    assert float(evaluate(plan, 0, arrays, "sum")[0]) == large


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
def test_sums_of_integers_are_exact_or_an_error(dtype: str, star: Callable[..., Topology]) -> None:
    plan = make_plan("ring", star(3))
    limits = np.iinfo(DTYPES[dtype])
    low = -1 if limits.min else 0
    for numbers in ((limits.max, 0, 0), (limits.max, 1, low), (1, low, limits.max)):
        arrays = [np.array([number], DTYPES[dtype]) for number in numbers]
        for shape in ((1,), ()):
            shaped = [array.reshape(shape) for array in arrays]
            if sum(numbers) > limits.max:
                with pytest.raises(ReductionOverflow, match="leaves the range"):
                    evaluate(plan, 0, shaped, "sum")
            else:
                assert evaluate(plan, 0, shaped, "sum").item() == sum(numbers)
    for numbers in ((limits.max, 1, 0), (limits.max, limits.max, 0), (limits.min, low, low)):
        if not limits.min <= sum(numbers) <= limits.max:
            arrays = [np.array([number], DTYPES[dtype]) for number in numbers]
            with pytest.raises(ReductionOverflow):
                evaluate_allreduce(plan, arrays, "sum", 64)


def test_products_of_integers_wrap_around(star: Callable[..., Topology]) -> None:
    plan = make_plan("ring", star(3))
    arrays = [np.array([number], np.int8) for number in (100, 3, -1)]
    assert evaluate(plan, 0, arrays, "prod").tolist() == [-44]


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "f8e5m2"])
def test_nan_and_infinity_survive(op: str, dtype: str, star: Callable[..., Topology]) -> None:
    plan = make_plan("halving-doubling", star(4))
    for rank in range(4):
        arrays = [np.ones(2, DTYPES[dtype]) for _ in range(4)]
        arrays[rank][0] = np.nan
        arrays[rank][1] = -np.inf if op == "min" else np.inf
        result = evaluate(plan, 0, arrays, op).astype(np.float64)
        assert np.isnan(result[0])
        assert np.isinf(result[1])


@given(st.lists(st.floats(width=32), min_size=2, max_size=6), st.sampled_from(["min", "max"]))
def test_min_and_max_equal_those_of_numpy(values: list[float], op: str) -> None:
    arrays = [np.array([v], np.float32) for v in values]
    numpy_op = {"min": np.minimum, "max": np.maximum}[op]
    np.testing.assert_array_equal(reduce_operands(arrays, op), numpy_op.reduce(arrays))


def test_min_and_max_of_two_zeros_take_the_last() -> None:
    zero, minus = np.zeros(1, np.float32), -np.zeros(1, np.float32)
    for op in ("min", "max"):
        assert np.signbit(reduce_operands([zero, minus], op))
        assert not np.signbit(reduce_operands([minus, zero], op))


def test_inconsistent_contributions_are_refused(star: Callable[..., Topology]) -> None:
    plan = make_plan("ps", star(2))
    ones = np.ones(3, np.float32)
    with pytest.raises(MismatchError, match="1 contributions for 2 ranks"):
        evaluate(plan, 0, [ones], "sum")
    with pytest.raises(MismatchError, match=r"rank 1 has float32\[4\], rank 0 has float32\[3\]"):
        evaluate(plan, 0, [ones, np.ones(4, np.float32)], "sum")
    with pytest.raises(MismatchError, match="rank 1 has float64"):
        evaluate(plan, 0, [ones, np.ones(3)], "sum")
    with pytest.raises(CollectiveError, match="unknown operation 'avg'; use one of sum"):
        evaluate(plan, 0, [ones, ones], "avg")
    with pytest.raises(CollectiveError, match="S1 cannot be reduced"):
        evaluate(plan, 0, [np.ones(1, "S1")] * 2, "sum")
    with pytest.raises(CollectiveError, match="f32 has no bxor; use one of sum, min, max, prod"):
        evaluate(plan, 0, [ones, ones], "bxor")
    with pytest.raises(CollectiveError, match="c64 has no max; use one of sum, prod"):
        evaluate(plan, 0, [np.ones(1, np.complex64)] * 2, "max")
    with pytest.raises(CollectiveError, match="0 elements is empty"):
        evaluate_allreduce(plan, [ones, ones], "sum", 0)
