"""The requests of an operation to its node: the array to publish, and those to fetch."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from innet._native import _core
from innet.collectives.arrays import byte_view, landing_bytes
from innet.collectives.operation import Operation
from innet.plans import SegmentRoom

_ROUNDS_AHEAD = 2
"""A node begins so many segments of each shard that it adds for others without a request."""
_LAST_BY_WAY = 8
"""Segments at the end of an operation that nodes begin in the order of their ways to the root. The
others are begun in their own order, so that results are on their way while others are added up."""
_MOST_ROUNDS = 8
"""Segments of each shard of an operation that gains by it: windows of longer ones are soon full."""


def publication_and_fetches(
    operation: Operation[Any],
    seq: int,
    room: SegmentRoom,
    call: str,
    earlier_calls: str,
    *,
    wraps: bool = False,
) -> tuple[_core.PublicationSpec | None, list[_core.FetchSpec]]:
    """The publication and the fetches of an operation under a sequence number.

    Args:
        operation: the operation.
        seq: its sequence number; stands in its names unless it has a number of its own.
        room: bytes of a tensor that a segment carries.
        call: the rank and its call, for ranks that made another.
        earlier_calls: those before it, which the ranks compare.
        wraps: sums of integers that leave their type are taken, modulo 2**n.
    """
    kind = _kind(operation.kind)
    segment_bytes = operation.segment_bytes(room)
    number_in_names = seq if operation.number is None else operation.number
    segmentation = _core.Segmentation(operation.blocks, operation.block_bytes, segment_bytes)
    publication = None
    if operation.publishes is not None:
        publication = _core.PublicationSpec(
            operation.variant.own,
            kind,
            number_in_names,
            byte_view(operation.publishes),
            segmentation,
            operation.elements,
            call,
            segment_ends=operation.segment_ends,
            earlier_calls=earlier_calls,
            offered=operation.begins_ahead and operation.variant.goes_ahead,
        )
    fetches = [
        *_sums_ahead(operation, kind, number_in_names, segmentation, segment_bytes, earlier_calls),
        *_fetches(operation, kind, number_in_names, segmentation, earlier_calls, wraps),
    ]
    return publication, fetches


def _fetches(
    operation: Operation[Any],
    kind: _core.Name,
    seq: int,
    segmentation: _core.Segmentation,
    earlier_calls: str,
    wraps: bool,
) -> list[_core.FetchSpec]:
    per_block = segmentation.segments_per_block
    fetches = []
    for wanted in operation.wants:
        first = 0 if wanted.block is None else wanted.block * per_block
        end = segmentation.segments if wanted.block is None else first + per_block
        fetches.append(
            _core.FetchSpec(
                wanted.targets,
                kind,
                seq,
                segmentation,
                first,
                end,
                operation.elements,
                landing_bytes(wanted.into),
                wanted.by_block,
                sizes=wanted.sizes,
                earlier_calls=earlier_calls,
                wraps=wraps,
            )
        )
    return fetches


def _sums_ahead(
    operation: Operation[Any],
    kind: _core.Name,
    seq: int,
    segmentation: _core.Segmentation,
    segment_bytes: int,
    earlier_calls: str,
) -> list[_core.FetchSpec]:
    """Let this rank's node begin the first sums that others will request of it.

    Requests that pass from sum to sum would wait at every node behind the contributions that the
    first of them have caused. This rank drops the sums; its node keeps them for the requesters.
    """
    variant = operation.variant
    shards = len(variant.plan.roots)
    if not operation.begins_ahead or segmentation.segments > _MOST_ROUNDS * shards:
        return []
    ahead = variant.sums_ahead
    most_segments = min(segmentation.segments, _ROUNDS_AHEAD * shards)
    begun = [
        (segment, targets)
        for first in range(0, most_segments, shards)
        for shard, targets in ahead
        if (segment := first + shard) < most_segments
    ]
    first_of_last = segmentation.segments - _LAST_BY_WAY
    begun.sort(key=lambda one: min(one[0], first_of_last))
    unused = np.empty(min(segment_bytes, operation.size_bytes) if ahead else 0, np.uint8)
    return [
        _core.FetchSpec(
            targets,
            kind,
            seq,
            segmentation,
            segment,
            segment + 1,
            operation.elements,
            unused[: operation.size_bytes - segment * segment_bytes],
            earlier_calls=earlier_calls,
            wraps=True,  # whoever requests it judges
        )
        for segment, targets in begun
    ]


@functools.lru_cache(maxsize=256)
def _kind(text: str) -> _core.Name:
    return _core.Name(f"/{text}")
