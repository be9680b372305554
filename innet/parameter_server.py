"""Deprecated name of :mod:`innet.torch_backend.parameter_server`, kept for one version."""

import warnings

from innet.torch_backend.parameter_server import *  # noqa: F403

_TEXT = "innet.parameter_server is now innet.torch_backend.parameter_server"
warnings.warn(_TEXT, DeprecationWarning, stacklevel=2)
