"""Reductions over key-value pairs, and of sparse and block-sparse tensors.

Start with ``reduction``, the steps of a call. ``pairs`` are the key-value pairs of a rank, and the
segments into which their keys are cut.
"""

from innet.collectives.keyed.reduction import KeyedReductions

__all__ = ["KeyedReductions"]
