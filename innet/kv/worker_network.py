"""Deprecated name of what :mod:`innet.kv.pool_member` has, kept for one version."""

import warnings

from innet.kv.pool_member import DEFAULT_WEIGHT, LoopHost, open_worker_network, tenant_of_job

__all__ = ["DEFAULT_WEIGHT", "LoopHost", "open_worker_network", "tenant_of_job"]

_TEXT = "innet.kv.worker_network is now part of innet.kv.pool_member"
warnings.warn(_TEXT, DeprecationWarning, stacklevel=2)
