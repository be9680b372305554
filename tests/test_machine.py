"""This machine, and the priority of threads on it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from innet.machine import run_in_background


def _priority() -> tuple[int, int]:
    thread = threading.get_native_id()
    return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, thread)


def test_a_background_thread_gives_way_and_the_others_do_not():
    before = _priority()
    with ThreadPoolExecutor(1, initializer=run_in_background) as pool:
        assert pool.submit(_priority).result() == (os.SCHED_BATCH, max(before[1], 10))
    assert _priority() == before
