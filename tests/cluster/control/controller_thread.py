"""A controller's socket on a thread, handlers for it, and a process without free descriptors."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from innet.cluster.control.controller_server import ControllerServer
from innet.errors import ControlError
from innet.node.requests import ControlRequest, Handler


class ControllerThread:
    """Replies with what ``handlers[method](**params)`` returns; each call has a thread."""

    def __init__(self, path: Path, handlers: Mapping[str, Callable[..., Any]]) -> None:
        self._handlers = handlers
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()
        assert self._listens.wait(20)

    def _run(self, path: Path) -> None:
        self._loop.run_until_complete(self._serve(path))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _serve(self, path: Path) -> None:
        async with ControllerServer({path: self._respond}, who="the controller"):
            self._listens.set()
            await self._stop.wait()

    async def _respond(self, request: ControlRequest) -> Any:
        if request.method not in self._handlers:
            raise ControlError(f"unknown method {request.method!r}")
        return await asyncio.to_thread(self._handlers[request.method], **request.params)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _echo(**words: object) -> dict[str, object]:
    return words


def _fail() -> None:
    raise ControlError("not today")


HANDLERS: dict[str, Handler] = {"echo": _echo, "fail": _fail, "pid": os.getpid}


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """This process, server and client, can open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
