"""Deprecated name of :mod:`innet.cluster.launch`, kept for one version."""

import warnings

from innet.cluster.launch import *  # noqa: F403

warnings.warn("innet.launch is now innet.cluster.launch", DeprecationWarning, stacklevel=2)
