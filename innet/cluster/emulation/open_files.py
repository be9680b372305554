"""The limit of open files of this process."""

from __future__ import annotations

import resource


def take_all_descriptors() -> None:
    """Raise this process's limit of open files to what the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
