"""What the numbering of collective calls tells the node."""

from __future__ import annotations

from typing import cast

import pytest

from innet._native import _core
from innet.collectives.call_sequence import CallSequence, EarlierCalls


class _Node:
    """Remembers which calls it was told have failed."""

    def __init__(self) -> None:
        self.failed: list[range] = []

    def fail(self, stream: int, first: int, end: int, status: int, why: str) -> None:
        self.failed.append(range(first, end))


def test_a_successful_call_costs_the_node_no_time() -> None:
    node = _Node()
    calls = CallSequence(cast(_core.NodeHandle, node), 0, "rank 0 (h0)", 64, lambda number: None)
    with calls.call("outer", 1, True, None), calls.call("inner", 1, True, None):
        calls.take()
    assert node.failed == []


def test_calls_that_a_block_did_not_make_fail() -> None:
    node = _Node()
    calls = CallSequence(cast(_core.NodeHandle, node), 0, "rank 0 (h0)", 64, lambda number: None)

    def block() -> None:
        with calls.call("block", 3, True, None):
            calls.take()
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        block()
    assert node.failed == [range(3)]
    assert calls.next == 3


def test_earlier_calls_are_compared_in_few_bytes() -> None:
    one, other = EarlierCalls(), EarlierCalls()
    for number in range(100):
        one.add(f"broadcast(root={number % 300})")
        other.add(f"broadcast(root={number % 300 if number != 50 else 777})")
        compared, listed = one.for_next()
        assert (compared == other.for_next()[0]) == (number < 50)
        assert len(compared) <= _core.MAX_EARLIER_CALLS
    assert listed.startswith("broadcast(root=92), broadcast(root=93), ")
    assert compared.startswith("...broadcast(root=99) (")
    for calls in (one, other):
        calls.clear()
        calls.add("reduce(root=2)")
    assert one.for_next() == other.for_next() == ("reduce(root=2)", "")
    one.add_unknown()
    assert one.for_next() == (_core.UNKNOWN_CALLS, "")


def test_a_long_text_is_truncated_and_still_compared() -> None:
    one, other = EarlierCalls(), EarlierCalls()
    one.leave_step("a step with a long name" * 2)
    other.leave_step("a step with a long name" * 3)
    compared, _ = one.for_next()
    assert len(compared) == _core.MAX_EARLIER_CALLS
    assert compared != other.for_next()[0]
