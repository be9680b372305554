"""Reductions by key: ``calls`` is what users see, ``reduction`` the steps that it takes.

``pairs`` are key-value pairs of a rank, ``layout`` how the wire has them, ``partition`` cuts the
space of keys into segments, ``exchange`` sends the pairs and fetches their union, and ``mixing`` is
what makes any keys fill that space evenly. ``sparse`` and ``blocks`` are sums of vectors on top.
"""

from innet.collectives.keyed.calls import KeyedCalls

__all__ = ["KeyedCalls"]
