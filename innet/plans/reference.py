"""The exact result of a plan: its expression evaluated with NumPy, to the bit.

The arithmetic of one reduction (one rule): operands from left to right; floats narrower than
``f32`` are widened to it, added there and rounded once at the end; integers wrap around, as
NumPy's do, and a whole sum outside their type is an error; ``min`` and ``max`` hand on NaN (the
left one of two) and take the right one of two equal operands, which matters for ``-0.0`` and
``0.0``; complex products are rounded after every step of ``(ac - bd) + (ad + bc)i``; on truth
values ``sum``, ``max`` and ``bor`` are "or", ``prod``, ``min`` and ``band`` are "and". The payload
bits of a NaN that ``sum`` and ``prod`` make are not defined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from innet.errors import CollectiveError, MismatchError, ReductionOverflow
from innet.plans.element_types import ELEMENT_TYPES, OPERATIONS, element_type_of
from innet.plans.expression import Interval
from innet.plans.plan import Plan

Array = NDArray[Any]


def _minimum(left: Array, right: Array) -> Array:
    # numpy.minimum leaves the sign of a zero to the processor at hand.
    return np.where((left < right) | (left != left), left, right)


def _maximum(left: Array, right: Array) -> Array:
    return np.where((left > right) | (left != left), left, right)


def _complex_product(left: Array, right: Array) -> Array:
    # NumPy's own product fuses steps where the processor can.
    result = np.empty_like(left)
    result.real = left.real * right.real - left.imag * right.imag
    result.imag = left.real * right.imag + left.imag * right.real
    return result


_STEPS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": _minimum,
    "max": _maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
_TRUTH_STEPS: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("sum", "max", "bor"), np.logical_or),
    **dict.fromkeys(("prod", "min", "band"), np.logical_and),
    "bxor": np.logical_xor,
}


def evaluate(plan: Plan, shard: int, contributions: Sequence[Array], op: str) -> Array:
    """The result of one shard.

    Args:
        shard: segment number (allreduce) or block number (reduce-scatter); chooses the root.
        contributions: one array per rank, all of one shape and element type.
        op: one of :data:`~innet.plans.element_types.OPERATIONS`.

    Raises:
        MismatchError: there is not one array per rank, or their shapes or types differ.
        ReductionOverflow: a sum of integers left the range of its type.
        CollectiveError: unknown operation or element type, or one that does not know the other.
    """
    _check(plan, contributions, op)
    if op == "sum":
        require_in_range(contributions)
    return _evaluate_interval(plan, plan.root_for(shard).interval, contributions, op)


def evaluate_allreduce(
    plan: Plan,
    contributions: Sequence[Array],
    op: str,
    segment_elements: int,
    contributors: Collection[int] | None = None,
) -> Array:
    """The result of an allreduce whose tensors are cut into segments of ``segment_elements``.

    Segment k is evaluated by the root of shard k. With ``contributors``, positions of the plan, the
    others are left out, and so are intervals without any of them. Other arguments and errors: see
    :func:`evaluate`.
    """
    if segment_elements < 1:
        raise CollectiveError(f"a segment of {segment_elements} elements is empty; use 1 or more")
    _check(plan, contributions, op)
    if op == "sum":
        taking_part = range(plan.size) if contributors is None else contributors
        require_in_range([contributions[rank] for rank in taking_part])
    flat = [np.ascontiguousarray(array).reshape(-1) for array in contributions]
    shard_of = (np.arange(flat[0].size) // segment_elements) % len(plan.roots)
    result = np.empty_like(flat[0])
    for interval in dict.fromkeys(root.interval for root in plan.roots):
        shards = [s for s, root in enumerate(plan.roots) if root.interval == interval]
        mine = np.isin(shard_of, shards)
        parts = [array[mine] for array in flat]
        result[mine] = _evaluate_interval(plan, interval, parts, op, contributors)
    return result.reshape(np.shape(contributions[0]))


def reduce_operands(operands: Sequence[Array], op: str) -> Array:
    """One reduction: ``operands`` combined from left to right as a node does it."""
    dtype = operands[0].dtype
    element = element_type_of(dtype)
    if element is not None and element.wide is not None:
        wide = [array.astype(element.wide) for array in operands]
        with np.errstate(all="ignore"):
            return _fold(wide, _STEPS[op]).astype(dtype)
    return _fold(operands, _step(dtype, op))


def require_in_range(operands: Sequence[Array]) -> None:
    """Check that the exact sum of integers fits their type; other types always do.

    Raises:
        ReductionOverflow: it does not.
    """
    dtype = operands[0].dtype
    if not np.issubdtype(dtype, np.integer):
        return
    # Upper and lower halves, whose sums int64 holds for any number of ranks that exists.
    half = 4 * dtype.itemsize
    limits = np.iinfo(dtype)
    low = sum((operand & ((1 << half) - 1)).astype(np.int64) for operand in operands)
    high = sum((operand >> half).astype(np.int64) for operand in operands) + (low >> half)
    if np.any(high > limits.max >> half) or np.any(high < limits.min >> half):
        raise ReductionOverflow(
            f"the sum of {dtype} leaves the range {limits.min}..{limits.max}; "
            "use a wider type, or scale the values first"
        )


def _step(dtype: np.dtype[Any], op: str) -> Callable[[Array, Array], Array]:
    if dtype == np.bool_:
        return _TRUTH_STEPS[op]
    if np.issubdtype(dtype, np.complexfloating) and op == "prod":
        return _complex_product
    return _STEPS[op]


def _evaluate_interval(
    plan: Plan,
    interval: Interval,
    contributions: Sequence[Array],
    op: str,
    contributors: Collection[int] | None = None,
) -> Array:
    taking_part = range(plan.size) if contributors is None else contributors
    values = {Interval.single(rank): contributions[rank] for rank in taking_part}
    for part in _postorder(plan, interval):
        operands = [values[operand] for operand in plan.expression(part) if operand in values]
        if operands:
            values[part] = reduce_operands(operands, op)
    return np.array(values[interval], copy=True)


def _postorder(plan: Plan, interval: Interval) -> list[Interval]:
    """The sums below and including ``interval``, operands before what needs them."""
    found: list[Interval] = []
    pending = [interval]
    while pending:
        part = pending.pop()
        if not part.is_single:
            found.append(part)
            pending += plan.expression(part)
    return found[::-1]


def _fold(operands: Sequence[Array], combine: Callable[[Array, Array], Array]) -> Array:
    result = operands[0]
    # Overflow to infinity and NaN are results here, not accidents.
    with np.errstate(all="ignore"):
        for operand in operands[1:]:
            result = combine(result, operand)
    return result


def _check(plan: Plan, contributions: Sequence[Array], op: str) -> None:
    if op not in OPERATIONS:
        raise CollectiveError(f"unknown operation {op!r}; use one of {', '.join(OPERATIONS)}")
    if len(contributions) != plan.size:
        raise MismatchError(
            f"{len(contributions)} contributions for {plan.size} ranks; pass one array per rank"
        )
    first = contributions[0]
    element = element_type_of(first.dtype)
    if element is None:
        raise CollectiveError(
            f"element type {first.dtype} cannot be reduced; use one of {', '.join(ELEMENT_TYPES)}"
        )
    if op not in element.operations:
        raise CollectiveError(
            f"element type {element.name} has no {op}; use one of {', '.join(element.operations)}"
        )
    for rank, array in enumerate(contributions):
        if array.dtype != first.dtype or array.shape != first.shape:
            raise MismatchError(
                f"rank {rank} has {array.dtype}{list(array.shape)}, rank 0 has "
                f"{first.dtype}{list(first.shape)}; pass equal shapes and types"
            )
