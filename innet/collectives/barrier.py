"""Barrier: a sum of one element."""

from __future__ import annotations

import numpy as np

from innet.collectives.group import Variants
from innet.collectives.operation import Operation, Wanted


def barrier(variants: Variants) -> Operation[None]:
    """The operation of one rank; it ends when every rank has started it."""
    contribution = np.zeros(1, np.uint8)
    variant = variants.for_size(contribution.nbytes)
    return Operation(
        what="barrier()",
        variant=variant,
        kind="sum.u8",
        elements=1,
        block_bytes=1,
        publishes=contribution,
        wants=(Wanted(variant.roots, np.zeros(1, np.uint8)),),
        finish=lambda: None,
    )
