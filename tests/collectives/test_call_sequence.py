"""What the numbering of collective calls tells the node."""

from __future__ import annotations

from typing import cast

import pytest

from innet._native import _core
from innet.collectives.call_sequence import CallSequence


class _Node:
    """Remembers which calls it was told have failed."""

    def __init__(self) -> None:
        self.failed: list[range] = []

    def fail(self, stream: int, first: int, end: int, status: int, why: str) -> None:
        self.failed.append(range(first, end))


def test_a_call_that_goes_well_takes_no_time_of_the_node() -> None:
    node = _Node()
    calls = CallSequence(cast(_core.NodeHandle, node), 0, "rank 0 (h0)", 64, lambda number: None)
    with calls.call("outer", 1, True, None), calls.call("inner", 1, True, None):
        calls.take()
    assert node.failed == []


def test_calls_that_a_block_did_not_make_have_failed() -> None:
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
