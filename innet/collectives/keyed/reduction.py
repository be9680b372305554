"""Reduction by key: the union of everybody's keys, and the values of equal keys reduced.

First the ranks agree on how many pairs all of them have in each range of mixed keys, by a small
sum; from that each of them cuts the key space into the same segments, none of which can overflow a
packet. Then each publishes its pairs and fetches their union, as an allreduce does.
"""

from __future__ import annotations

import numpy as np

from innet.collectives.allreduce import allreduce
from innet.collectives.arrays import Array
from innet.collectives.group import Variants
from innet.collectives.keyed.pairs import Pairs
from innet.collectives.keyed.partition import (
    COARSE_BUCKETS_LOG2,
    KeyPartition,
    buckets_needed_log2,
    count_keys,
    cut,
)
from innet.collectives.operation import Operation, Wanted
from innet.collectives.staged import Steps

MOST_STEPS = 3
"""Operations of one reduction: counts, finer counts where there are many, pairs."""

KeysAndValues = tuple[Array, Array]


def reduce_by_key(
    variants: Variants, segment_bytes: int, pairs: Pairs, op: str, wanted_here: bool, what: str
) -> Steps[KeysAndValues | None]:
    """The steps of one rank.

    Args:
        variants: plans of the group.
        segment_bytes: content of a full segment.
        pairs: of this rank.
        op: ``sum``, ``min``, ``max`` or ``prod``.
        wanted_here: this rank gets the result; otherwise it only contributes.
        what: for people.
    """
    capacity = pairs.type.capacity(segment_bytes)
    buckets_log2 = COARSE_BUCKETS_LOG2
    counts = yield _count(variants, pairs, buckets_log2, what)
    needed_log2 = buckets_needed_log2(counts, capacity)
    if needed_log2 > buckets_log2:
        counts = yield _count(variants, pairs, needed_log2, what)
    partition = cut(counts, capacity, pairs.type.mixer.bits)
    union = yield _exchange(variants, segment_bytes, pairs, op, partition, wanted_here, what)
    return None if union is None else union.unmixed()


def _count(variants: Variants, pairs: Pairs, buckets_log2: int, what: str) -> Operation[Array]:
    counts = count_keys(pairs.mixed, buckets_log2)
    return allreduce(variants, counts, "sum", counts, what=f"{what}, counting keys")


def _exchange(
    variants: Variants,
    segment_bytes: int,
    pairs: Pairs,
    op: str,
    partition: KeyPartition,
    wanted_here: bool,
    what: str,
) -> Operation[Pairs | None]:
    variant = variants.for_size(partition.pairs * pairs.type.pair_bytes)
    contents, ends = pairs.pack(partition)
    segments = np.empty((partition.segments if wanted_here else 0, segment_bytes), np.uint8)
    sizes = np.zeros(len(segments), np.uint32)

    def finish() -> Pairs | None:
        return Pairs.unpack(pairs.type, segments, sizes) if wanted_here else None

    return Operation(
        what=what,
        variant=variant,
        kind=f"{op}.{pairs.type.name}",
        elements=partition.pairs,
        block_bytes=partition.segments * segment_bytes,
        publishes=contents,
        segment_ends=ends,
        wants=(Wanted(variant.roots, segments, sizes=sizes),) if wanted_here else (),
        finish=finish,
        synchronising=wanted_here,
    )
