"""Operations that wait here: their end, and what is left of them then."""

from __future__ import annotations

import threading

from innet._native import _core
from innet.collectives.posted import Posted

FOREVER_S = 1e6


def test_an_operation_that_has_ended_keeps_no_thread() -> None:
    before = set(threading.enumerate())
    heard: list[tuple[int, str]] = []
    posted = Posted(FOREVER_S, "nobody came")
    posted.deliver(0, lambda status, detail: heard.append((status, detail)))
    posted.end(_core.STATUS_DONE, "")
    assert heard == [(_core.STATUS_DONE, "")]
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_an_operation_that_nobody_ends_ends_at_its_deadline() -> None:
    ended = threading.Event()
    posted = Posted(0.0, "nobody came")
    posted.deliver(0, lambda _status, _detail: ended.set())
    assert ended.wait(30)
    assert posted.wait(0, 0.0) == (_core.STATUS_DEADLINE_EXCEEDED, "nobody came")
