"""Deprecated name of :mod:`innet.cluster.launch`, kept for one version."""

import warnings

from innet.cluster.launch import *  # noqa: F403

_TEXT = "innet.launch is now innet.cluster.launch"
warnings.warn(_TEXT, DeprecationWarning, stacklevel=2)
