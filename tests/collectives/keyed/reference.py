"""What a reduction by key must compute, to the bit: a plan's expression evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from innet.plans import Plan
from innet.plans.expression import Interval
from innet.plans.reference import Array, reduce_operands

KeysAndValues = tuple[Array, Array]
"""Strictly ascending keys, and a value for each: an element, or a row of them (a block)."""


def evaluate_pairs(
    plan: Plan, shard: int, contributions: Sequence[KeysAndValues], op: str
) -> KeysAndValues:
    """The result of one segment of a reduction by key, to the bit.

    A key that an operand lacks takes no part in that step, so a value that only one rank has stays
    as it is, ``-0.0`` too.

    ``shard`` is the number of the segment, which chooses the root.
    """
    assert len(contributions) == plan.size

    def value_of(interval: Interval) -> KeysAndValues:
        if interval.is_single:
            return contributions[interval.first]
        first, *rest = (value_of(operand) for operand in plan.expression(interval))
        for operand in rest:
            first = _union(first, operand, op)
        return first

    return value_of(plan.root_for(shard).interval)


def _union(left: KeysAndValues, right: KeysAndValues, op: str) -> KeysAndValues:
    _, in_left, in_right = np.intersect1d(left[0], right[0], return_indices=True)
    combined = reduce_operands([left[1][in_left], right[1][in_right]], op)
    only_left = np.delete(np.arange(len(left[0])), in_left)
    only_right = np.delete(np.arange(len(right[0])), in_right)
    keys = np.concatenate([left[0][only_left], left[0][in_left], right[0][only_right]])
    values = np.concatenate([left[1][only_left], combined, right[1][only_right]])
    order = np.argsort(keys)
    return keys[order], values[order]
