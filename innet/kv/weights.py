"""Deprecated name of what :mod:`innet.kv.model` has, kept for one version."""

import warnings

from innet.kv.model import Weight, weights_digest

__all__ = ["Weight", "weights_digest"]

_TEXT = "innet.kv.weights is now part of innet.kv.model"
warnings.warn(_TEXT, DeprecationWarning, stacklevel=2)
