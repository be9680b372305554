"""How long training waits for communication."""

from __future__ import annotations

import time
from pathlib import Path

_SCHEDULER_STATISTICS = Path("/proc/thread-self/schedstat")


class CommunicationClock:
    """Wall time, and the part of it that the computing thread slept.

    Everything is computed by the thread that calls the model: with one thread for PyTorch, backward
    runs there too. It sleeps only to wait for what the network has not brought yet. So the time
    waited is the wall time, less the thread's own processor time, less the time it was ready to run
    and the processor was taken by another process (``/proc/<pid>/task/<tid>/schedstat``; see
    sched-stats in the kernel's documentation). Call it from that thread alone.
    """

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self._busy_before_s = _busy_s()

    def read(self) -> tuple[float, float]:
        """Seconds of wall time since the clock was made, and how many of them were waited."""
        wall_s = time.perf_counter() - self._began_s
        return wall_s, max(0.0, wall_s - (_busy_s() - self._busy_before_s))


def _busy_s() -> float:
    """Seconds that this thread has run or been ready to run."""
    try:
        running_ns, ready_ns, _slices = _SCHEDULER_STATISTICS.read_text().split()
    except OSError:  # a kernel without these statistics: what others took counts as waited
        return time.thread_time()
    return (int(running_ns) + int(ready_ns)) * 1e-9
