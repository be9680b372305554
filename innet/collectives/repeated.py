"""Blocking allreduces that repeat an earlier one: one call of the node each.

A small operation takes less time than Python needs to describe it. So what calls with equal shapes
and types have in common is described once, when the second of them comes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from innet._native import _core
from innet.collectives.arrays import Array
from innet.collectives.group import Variant
from innet.collectives.operation import allreduce
from innet.collectives.runner import Call, OperationRunner
from innet.errors import CollectiveError

_MOST_KEYS = 256
"""Programs whose shapes always differ repeat nothing."""

_Key = tuple[Any, ...]
F = TypeVar("F", bound=Callable[..., Any])


def repeating(allreduce: F) -> F:
    """Decorator of a communicator's blocking allreduce: repeated calls go the short way."""

    @functools.wraps(allreduce)
    def call(self: Any, array: Array, op: str = "sum", out: Array | None = None) -> Any:
        result = self._repeated.run(array, op, out)
        return allreduce(self, array, op, out) if result is None else result

    return cast(F, call)


def repeat_allreduce(communicator: Any, array: Array, op: str) -> bool:
    """Sum ``array`` in place, as an earlier call did; ``False`` if nothing was done.

    For callers that have a general way of their own.
    """
    return communicator._repeated.run(array, op, array) is not None


@dataclass(slots=True)
class _Prepared:
    """An allreduce that was called before.

    Attributes:
        what: the call, for people.
        variant, roots: the plan that it follows, and where that had its sums.
        native: the operation, without its arrays.
    """

    what: str
    variant: Variant
    roots: _core.Targets
    native: _core.RepeatedOperation


class RepeatedAllreduces:
    """The blocking allreduces of one rank of a group that repeat an earlier one.

    Left to the general way: the first call of each kind, traced and logged calls, subclasses of
    arrays, arrays that are not contiguous or have no buffer interface, and results over a part of
    the input.
    """

    def __init__(self, runner: OperationRunner) -> None:
        self._runner = runner
        # A simulated node runs only while its host's program does not.
        self._node = runner.node if isinstance(runner.node, _core.Node) else None
        self._seen: dict[_Key, _Prepared | None] = {}

    def run(self, array: Array, op: str, out: Array | None) -> Array | None:
        """The result; ``None``: nothing was done, and the call has to go the general way.

        Raises what the general way raises.
        """
        runner = self._runner
        if self._node is None or not runner.is_unobserved or not _is_plain(array, op, out):
            return None
        calls, first = runner.calls, runner.calls.next
        seq, what = None, "allreduce"
        try:
            earlier, after = calls.earlier.for_next()
            key = (array.shape, array.dtype, op, out is array, runner.overflow, earlier)
            prepared = self._seen.get(key)
            if prepared is None or prepared.roots is not prepared.variant.roots:
                prepared = self._prepare(key, array, op, out)
                if prepared is None:
                    return None
            what = prepared.what
            result = np.empty(array.shape, array.dtype) if out is None else out
            timeout_s = runner.timeout_for_s(array.nbytes)
            seq = calls.take_single()
            if seq is None:
                return None
            status, detail = self._node.run(prepared.native, array, result, seq, timeout_s)
        except BaseException as error:
            # Other threads may have taken the numbers behind it meanwhile.
            own = first if seq is None else seq
            calls.fail(range(own, min(own + 1, calls.next)), what, error)
            raise
        if status != _core.STATUS_DONE:
            runner.raise_error(
                Call(prepared.what, lambda: None, seq, timeout_s, after=after), status, detail
            )
        return result

    def _prepare(self, key: _Key, array: Array, op: str, out: Array | None) -> _Prepared | None:
        """What the next calls need; ``None`` for the first call of its kind, and where the arrays
        have no buffer interface."""
        if key not in self._seen:
            if len(self._seen) >= _MOST_KEYS:
                self._seen.clear()
            self._seen[key] = None
            return None
        if not _has_buffer(array):
            return None
        try:
            operation = allreduce(self._runner.variants, array, op, out)
        except CollectiveError:
            return None  # the general way raises it, and publishes that the call failed
        variant = operation.variant
        prepared = _Prepared(
            operation.what,
            variant,
            operation.wants[0].targets,
            self._runner.repeated(operation, key[-1]),
        )
        self._seen[key] = prepared
        return prepared


def _has_buffer(array: Array) -> bool:
    """Whether other code can have the array's memory: NumPy gives none of ml_dtypes' types."""
    try:
        return array.data is not None
    except ValueError:
        return False


def _is_plain(array: Array, op: str, out: Array | None) -> bool:
    """Whether the arrays and the operation are such that an earlier call can have checked them."""
    if type(array) is not np.ndarray or type(op) is not str:
        return False
    if not array.size or not array.flags.c_contiguous:
        return False
    if out is array:
        return array.flags.carray
    return out is None or (
        type(out) is np.ndarray
        and out.shape == array.shape
        and out.dtype == array.dtype
        and out.flags.carray
        and not np.may_share_memory(out, array)
    )
