"""Reduction by key: the union of everybody's keys, and the values of equal keys reduced.

First the ranks agree on how many pairs all of them have in each range of mixed keys, by a small
sum; from that each of them cuts the key space into the same segments, none of which can overflow a
packet. Then each publishes its pairs and fetches their union, as an allreduce does.
"""

from __future__ import annotations

from dataclasses import replace

from innet.collectives.allreduce import allreduce
from innet.collectives.arrays import Array
from innet.collectives.group import Variants
from innet.collectives.keyed.exchange import KeysAndValues, exchange_pairs
from innet.collectives.keyed.pairs import Pairs
from innet.collectives.keyed.partition import (
    COARSE_BUCKETS_LOG2,
    buckets_needed_log2,
    count_keys,
    cut,
)
from innet.collectives.operation import Operation, rooted
from innet.collectives.staged import Steps

MOST_STEPS = 3
"""Operations of one reduction: counts, finer counts where there are many, pairs."""


def reduce_by_key(
    variants: Variants,
    segment_bytes: int,
    pairs: Pairs,
    op: str,
    wanted_here: bool,
    what: str,
    elements: int | None = None,
    root: int | None = None,
) -> Steps[KeysAndValues | None]:
    """The steps of one rank.

    Args:
        variants: plans of the group.
        segment_bytes: content of a full segment.
        pairs: of this rank.
        op: ``sum``, ``min``, ``max`` or ``prod``.
        wanted_here: this rank gets the result; otherwise it only contributes.
        what: for people.
        elements: what all ranks must give alike, such as the size of a vector that the keys are
            places in; ``None``: nothing.
        root: the rank that gets the result, alike on all ranks; ``None``: all do.
    """
    layout = pairs.type.layout
    capacity = layout.capacity(segment_bytes)
    buckets_log2 = COARSE_BUCKETS_LOG2
    counts = yield _count(variants, pairs, buckets_log2, what, elements, root)
    needed_log2 = buckets_needed_log2(counts, capacity)
    if needed_log2 > buckets_log2:
        counts = yield _count(variants, pairs, needed_log2, what, elements, root)
    partition = cut(counts, capacity, pairs.type.mixer.bits)
    union: KeysAndValues | None = yield exchange_pairs(
        variants,
        segment_bytes,
        layout,
        (pairs.mixed, pairs.values),
        op,
        partition,
        partition.pairs,
        wanted_here,
        what,
    )
    return None if union is None else Pairs(pairs.type, *union).unmixed()


def _count(
    variants: Variants,
    pairs: Pairs,
    buckets_log2: int,
    what: str,
    elements: int | None,
    root: int | None,
) -> Operation[Array]:
    counts = count_keys(pairs.mixed, buckets_log2)
    counting = allreduce(variants, counts, "sum", counts, what=f"{what}, counting keys")
    if root is not None:  # all ranks wait for the counts, and so all hear of another root
        counting = replace(counting, kind=rooted(counting.kind, root))
    return counting if elements is None else replace(counting, elements=elements)
