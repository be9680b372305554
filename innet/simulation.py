"""Deprecated name of :mod:`innet.lab.simulation`, kept for one version."""

import warnings

from innet.lab.simulation import *  # noqa: F403

_TEXT = "innet.simulation is now innet.lab.simulation"
warnings.warn(_TEXT, DeprecationWarning, stacklevel=2)
