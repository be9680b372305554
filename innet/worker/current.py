"""The worker of this process: opened at its first use, closed at the process's end."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
from types import TracebackType

from innet.errors import HostTaken
from innet.worker.context import Worker
from innet.worker.process_end import (
    ProgramEnd,
    describe,
    forget_after_fork,
    is_of_another,
    take_hooks,
)

_lock = threading.Lock()
_worker: Worker | None = None
_why_none: str = ""
"""Why this process can have no worker; empty when it can."""


def current_worker() -> Worker:
    """The worker of this process, opened at the first call.

    Raises:
        EmulationError: this process was not started by ``innet run``, and is not attached.
        HostTaken: another process of this host has its node, or this one was forked from it.
    """
    global _worker
    with _lock:
        if _why_none:
            raise HostTaken(_why_none)
        if _worker is None:
            _worker = Worker.from_environment()
            _install_hooks_once()
        return _worker


def replace_worker() -> Worker | None:
    """Open another worker, which the environment describes now, in place of this process's.

    Hooks of :meth:`Worker.before_close` stay.

    Returns:
        The worker before, which the caller closes; ``None`` if it was not opened.

    Raises:
        InnetError: it cannot be opened; the worker before stays.
    """
    global _worker
    with _lock:
        if _worker is None:
            return None
        before, _worker = _worker, Worker.from_environment()
        return before


def close_worker() -> None:
    """Close this process's worker, if it was opened; the next use opens another.

    Groups are left first, in the reverse order of their making. An error of that is raised once the
    worker is closed.
    """
    global _worker
    with _lock:
        worker, _worker = _worker, None
        hooks = take_hooks()
    if worker is not None:
        # All of them, whatever one raises: an open node would keep others waiting.
        with contextlib.ExitStack() as closing:
            closing.callback(worker.close)
            for hook in hooks:
                closing.callback(hook)


def end_control() -> None:
    """See :meth:`Worker.end_control`, of this process's worker if it was opened."""
    if _worker is not None:
        _worker.end_control()


def fail_worker(why: str, *, of_another: bool = False) -> None:
    """End the groups of this process's worker, if it was opened; see :meth:`Worker.fail`."""
    if _worker is not None:
        _worker.fail(why, of_another=of_another)


@functools.cache
def _install_hooks_once() -> None:
    """Close the worker at exit; when an error ends this rank, notify the others at once."""
    end = ProgramEnd()
    os.register_at_fork(after_in_child=_disown_after_fork)
    previous = sys.excepthook

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        fail_worker(describe(error), of_another=is_of_another(error))
        previous(kind, error, trace)

    def report_end() -> None:
        failure = end.failure()
        if failure is not None:
            fail_worker(failure)

    sys.excepthook = report
    # Before Python joins its threads, unlike what `atexit` calls: they may wait for other ranks,
    # and these for this one. Pools of threads stop in the same way.
    threading._register_atexit(report_end)  # type: ignore[attr-defined]
    atexit.register(close_worker)


def _disown_after_fork() -> None:
    """Disown the worker in a forked child, which has none of its threads.

    Its end and its errors do not affect the job.
    """
    global _worker, _lock, _why_none
    _lock = threading.Lock()  # whoever held it is not here
    forget_after_fork()
    worker, _worker = _worker, None
    if worker is not None:
        _why_none = (
            f"this process was forked from the worker of this host ({worker.config.node}), which "
            "alone is in the job's groups. Call innet and torch.distributed in the worker itself; "
            "give a child what it needs, and take its results, by other means"
        )
        worker.disown(_why_none)
