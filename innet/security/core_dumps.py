"""Keeps the memory of processes that hold keys out of core dumps.

``PR_SET_DUMPABLE`` would do that as well, and close ``/proc/<pid>`` to other processes of the user.
But then clean-up misses children that a rank forked, libraries cannot copy from rank to rank, and
debuggers cannot attach (decision 127). The user of a run is trusted; the kernel keeps others out.
"""

from __future__ import annotations

import logging
import resource
from pathlib import Path

from innet.settings import SecuritySettings

_log = logging.getLogger(__name__)

_FILTER = Path("/proc/self/coredump_filter")
"""Selects the memory in a core dump, see core(5); children and executed programs inherit it."""
_PATTERN = Path("/proc/sys/kernel/core_pattern")


def keep_keys_out_of_core_dumps(settings: SecuritySettings) -> None:
    """Write no core file from now on, and leave all memory out of what a crash handler is given.

    Programs that this process starts inherit both. Nothing happens with ``core_dumps=true``.
    """
    if settings.core_dumps:
        return
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    # The limit does not hold for a crash handler (a pipe in core_pattern).
    try:
        _FILTER.write_text("0")
    except FileNotFoundError:  # a kernel without core dumps
        pass
    except OSError as error:  # a container may have a read-only /proc: no reason to end the process
        if _has_crash_handler():
            _log.warning(
                "a crash would give this process's memory, and keys in it, to the crash handler in "
                "%s: %s: %s. Mount /proc writable, or write a file name to core_pattern",
                _PATTERN,
                _FILTER,
                error.strerror,
            )


def _has_crash_handler() -> bool:
    try:
        return _PATTERN.read_text().startswith("|")
    except OSError:
        return True  # not known, so better say it
