"""Deprecated name of :mod:`innet.collectives.masked`, kept for one version."""

import warnings

from innet.collectives.masked import *  # noqa: F403

_TEXT = "innet.masking is now innet.collectives.masked"
warnings.warn(_TEXT, DeprecationWarning, stacklevel=2)
