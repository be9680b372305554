"""Deprecated name of :mod:`innet.lab.simulation`, kept for one version."""

import warnings

from innet.lab.simulation import *  # noqa: F403

warnings.warn("innet.simulation is now innet.lab.simulation", DeprecationWarning, stacklevel=2)
