"""Publishing a rank's pairs and fetching the union, once all ranks have cut the same segments."""

from __future__ import annotations

import numpy as np

from innet.collectives.arrays import Array
from innet.collectives.group import Variants
from innet.collectives.keyed.layout import PairLayout
from innet.collectives.keyed.partition import KeyPartition
from innet.collectives.operation import Operation, Wanted

KeysAndValues = tuple[Array, Array]


def exchange_pairs(
    variants: Variants,
    segment_bytes: int,
    layout: PairLayout,
    pairs: KeysAndValues,
    op: str,
    partition: KeyPartition,
    elements: int,
    wanted_here: bool,
    what: str,
) -> Operation[KeysAndValues | None]:
    """The operation of one rank.

    Args:
        variants: plans of the group.
        segment_bytes: content of a full segment.
        layout: of the pairs.
        pairs: of this rank, with strictly ascending keys.
        op: how values of equal keys are reduced.
        partition: the same on every rank; each of its segments has room for the union.
        elements: must be the same on every rank.
        wanted_here: this rank gets the result; otherwise it only contributes.
        what: for people.
    """
    variant = variants.for_size(partition.pairs * layout.pair_bytes)
    contents, ends = layout.pack(*pairs, partition)
    segments = np.empty((partition.segments if wanted_here else 0, segment_bytes), np.uint8)
    sizes = np.zeros(len(segments), np.uint32)

    def finish() -> KeysAndValues | None:
        return layout.unpack(segments, sizes) if wanted_here else None

    return Operation(
        what=what,
        variant=variant,
        kind=f"{op}.{layout.name}",
        elements=elements,
        block_bytes=partition.segments * segment_bytes,
        publishes=contents,
        segment_ends=ends,
        wants=(Wanted(variant.roots, segments, sizes=sizes),) if wanted_here else (),
        finish=finish,
        synchronising=wanted_here,
    )
