"""Which objects the ranks of a group offer: fetches of others end when their rank has left.

A fetch waits until its object is published. If that takes longer than :data:`ASK_AFTER_S`, this
rank requests ``<group>/own/<r>/<path>`` of the object's rank r. The answer comes when r leaves the
group: an empty tensor if it offers the object, else an error.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from innet._native import _core
from innet.collectives.group import AtFirstUse
from innet.collectives.runner import OperationRunner
from innet.collectives.transfers import PeerFetch, Transfers
from innet.collectives.work import Work

ASK_AFTER_S = 1.0


@dataclass(eq=False)
class AwaitedObject:
    """A fetch of an object.

    Attributes:
        operation: the fetch.
        source: the rank that it is fetched from.
        path: of the object.
        timeout_s: of the fetch.
        refusal: why it never comes, once that is known.
    """

    operation: int
    source: int
    path: str
    timeout_s: float
    refusal: str = ""


@dataclass(eq=False)
class _Followed:
    """A fetch under way, and the request that asks whether its object is offered."""

    awaited: AwaitedObject
    work: weakref.ref[Work[Any]]
    request: int | None = None

    @property
    def has_ended(self) -> bool:
        work = self.work()
        return work is None or work.done()


class OfferedObjects:
    """The objects that this rank offers, and its fetches of others'. Thread-safe."""

    def __init__(self, runner: OperationRunner) -> None:
        self._transfers = Transfers(runner, "own")
        self._collector = runner.collector
        self._now_s = runner.services.now_s
        self._background = AtFirstUse(lambda: runner.services.background("innet-objects"))
        self._lock = threading.Lock()
        self._paths: set[str] = set()
        self._followed: list[_Followed] = []

    def add(self, path: str) -> None:
        """This rank offers an object."""
        with self._lock:
            self._paths.add(path)

    def discard(self, path: str) -> None:
        """This rank offers an object no longer."""
        with self._lock:
            self._paths.discard(path)

    def end(self, why: str) -> None:
        """This rank publishes no more objects, because of ``why``."""
        with self._lock:
            paths = sorted(self._paths)
        nothing = np.empty(0, np.uint8)
        for path in paths:
            operation = self._transfers.start_publishing(f"/{path}", 0, nothing, "an object")
            self._collector.deliver(operation, lambda _status, _detail: None)
        self._transfers.refuse(why)

    def follow(self, awaited: AwaitedObject, work: Work[Any]) -> None:
        """End the fetch soon if its rank has left, or leaves, without the object."""
        with self._lock:
            is_first = not self._followed
            self._followed.append(_Followed(awaited, weakref.ref(work)))
        if is_first:
            self._look_later()

    def close(self) -> None:
        """Stop asking."""
        if self._background.made is not None:
            self._background.made.close()
        self._transfers.close()

    def _look_later(self) -> None:
        self._background().post_at(self._now_s() + ASK_AFTER_S, self._look)

    def _look(self) -> None:
        with self._lock:
            ended = [followed for followed in self._followed if followed.has_ended]
            self._followed = [followed for followed in self._followed if followed not in ended]
            silent = [followed for followed in self._followed if followed.request is None]
            is_done = not self._followed
        for followed in ended:
            if followed.request is not None:
                self._transfers.cancel(followed.request)
        for followed in silent:
            self._ask(followed)
        if not is_done:
            self._look_later()

    def _ask(self, followed: _Followed) -> None:
        awaited = followed.awaited
        nothing = np.empty(0, np.uint8)
        question = PeerFetch(awaited.source, f"/{awaited.path}", 0, nothing, awaited.timeout_s)

        def ended(status: int, detail: str) -> None:
            if status == _core.STATUS_NO_ROUTE:
                followed.request = None
            elif status == _core.STATUS_ABORTED:
                awaited.refusal = detail
                self._collector.cancel(awaited.operation)

        def started(number: int) -> None:
            followed.request = number

        self._transfers.fetch(question, ended, started)
