"""Which worker serves which request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from innet.lab.traces import Request

Assignment = Literal["round-robin", "prefix"]


def requests_of(
    rank: int, workers: int, requests: Sequence[Request], assign: Assignment
) -> Iterator[tuple[int, Request]]:
    """The requests of one of several workers, with their numbers in the trace.

    >>> prompt = Request(0.0, 512, 1, (b"a",))
    >>> [number for number, _ in requests_of(1, 2, [prompt] * 5, "round-robin")]
    [1, 3]
    """
    for number, request in enumerate(requests):
        if assign == "round-robin":
            chosen = number % workers
        else:
            # The first block is often a system prompt, which all requests begin with.
            chosen = int.from_bytes(request.blocks[:2][-1], "big") % workers
        if chosen == rank:
            yield number, request
