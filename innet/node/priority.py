"""The processor's share of a switch."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_NICENESS = -10
_AUTOGROUP = Path("/proc/self/autogroup")


def prefer_this_process() -> None:
    """Let this process run before those of ordinary priority, as far as it is allowed to (root).

    All hosts' traffic meets in a switch. In a network of machines it has a processor of its own;
    on one machine with fewer cores than nodes, the scheduler would give it the share of one host.
    Linux deals out time between sessions before it looks at niceness (autogroups: sched(7)), so
    both are set.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    with contextlib.suppress(OSError):
        _AUTOGROUP.write_text(str(_NICENESS))
