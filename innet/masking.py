"""Deprecated name of :mod:`innet.collectives.masked`, kept for one version."""

import warnings

from innet.collectives.masked import *  # noqa: F403

warnings.warn("innet.masking is now innet.collectives.masked", DeprecationWarning, stacklevel=2)
