"""Reductions over key-value pairs, and of sparse and block-sparse tensors.

Start with ``reduction``, the steps of a call. ``pairs`` are the key-value pairs of a rank and their
layout in segments, ``partition`` cuts the space of keys into segments, ``blocks`` adds block-sparse
tensors.
"""

from innet.collectives.keyed.reduction import KeyedReductions

__all__ = ["KeyedReductions"]
