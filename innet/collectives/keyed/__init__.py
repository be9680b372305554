"""Reductions by key: ``calls`` is what users see, ``reduction`` the steps that it takes.

``pairs`` are key-value pairs as the wire has them, ``partition`` cuts the space of keys into
segments, and ``mixing`` is what makes any keys fill that space evenly.
"""

from innet.collectives.keyed.calls import KeyedCalls

__all__ = ["KeyedCalls"]
