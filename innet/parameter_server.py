"""Deprecated name of :mod:`innet.torch_backend.parameter_server`, kept for one version."""

import warnings

from innet.torch_backend.parameter_server import *  # noqa: F403

warnings.warn(
    "innet.parameter_server is now innet.torch_backend.parameter_server",
    DeprecationWarning,
    stacklevel=2,
)
