"""The memory that the two ends of a link share.

It is a file without a name in any directory, sealed so that neither end can take away what the
other one reads. The native part says what is where (``switch_emulator/driver/link_memory.hpp``).
"""

from __future__ import annotations

import fcntl
import os
from typing import Final

_HEADER_BYTES: Final = 4096
_RING_BYTES: Final = 2 << 20
"""Of each direction; memory is taken only for what packets have touched of it."""
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create_link_memory(name: str) -> int:
    """The descriptor of new memory, all zero; the caller owns it.

    Raises:
        OSError: the kernel has no descriptor left.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, _HEADER_BYTES + 2 * _RING_BYTES)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


def is_link_memory(fd: int, name: str) -> bool:
    """Whether descriptor ``fd`` of this process is the memory of that name, and nothing else."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == f"/memfd:{name} (deleted)"
    except OSError:
        return False
