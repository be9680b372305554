"""Linux calls that Python 3.11's ``os`` lacks, and the limit on descriptors."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

_PR_SET_PDEATHSIG = 1

# Looked up at import: a child between fork and exec must not take the dynamic linker's lock.
_libc = ctypes.CDLL(None, use_errno=True)
_unshare = _libc.unshare
_setns = _libc.setns
_prctl = _libc.prctl


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling thread into new namespaces, see unshare(2)."""
    _check(_unshare(flags), "unshare")


def setns(namespace_fd: int, kind: int) -> None:
    """Move the calling thread into the namespace behind ``namespace_fd``, see setns(2)."""
    _check(_setns(namespace_fd, kind), "setns")


def set_parent_death_signal(signum: signal.Signals) -> None:
    """Ask for ``signum`` when the thread that forked this process ends, see prctl(2)."""
    _check(_prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def take_all_descriptors() -> None:
    """Raise this process's limit of open files to what the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
