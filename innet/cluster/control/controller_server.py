"""The controller's sockets: each serves its clients by a function of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self

import zmq
import zmq.asyncio

from innet.errors import ControlError
from innet.node.controller_client import controller_address
from innet.node.requests import MAX_REQUEST_BYTES, ControlReply, ControlRequest

_MAX_MACHINE_REQUEST_BYTES = 1 << 20
"""Of a process of another machine: an announcement is the longest."""
_MAX_UNREAD = 2
"""Requests, or replies, that wait to be read of one client of another machine. A client waits for
its reply before the next request; further replies to one that does not read them are dropped."""
_MAX_IN_PROGRESS = 64
"""Requests that a socket serves at once: operations run one after the other in any case."""
_LINGER_MS = 500
"""How long the end of the controller waits for clients that have not read their replies."""


Serve = Callable[[ControlRequest], Awaitable[Any]]
"""Makes the result of a request; its errors become refusals."""


class ControllerServer:
    """Serves requests over ZeroMQ, as an async context manager.

    Each socket has a function of its own that serves its requests: what a client may do depends on
    the socket that it reaches. Requests of all clients are served at once. Replies to a client that
    has disconnected, or that does not read, are dropped.

    libzmq aborts a process that has no descriptor left for a client. So a controller, which runs no
    user program, raises its limit as far as the system allows. If it is aborted, it is restarted.
    """

    def __init__(
        self, sockets: Mapping[Path, Serve], *, who: str, bounded: Collection[Path] = ()
    ) -> None:
        """
        Args:
            sockets: what serves the requests of each socket.
            bounded: the sockets whose clients could use up memory on purpose.
        """
        self._serves = sockets
        self._bounded = bounded
        self._who = who
        self._context: zmq.asyncio.Context | None = None
        self._sockets: list[zmq.asyncio.Socket] = []
        self._receivers: list[asyncio.Task[None]] = []
        self._results: set[asyncio.Future[Any]] = set()
        self._requests: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._context = zmq.asyncio.Context()
        for path, serve in self._serves.items():
            opened = self._context.socket(zmq.ROUTER)
            is_bounded = path in self._bounded
            opened.maxmsgsize = _MAX_MACHINE_REQUEST_BYTES if is_bounded else MAX_REQUEST_BYTES
            if is_bounded:
                opened.rcvhwm = opened.sndhwm = _MAX_UNREAD
            try:
                opened.bind(controller_address(path))
            except zmq.ZMQError as error:
                await self.__aexit__()
                raise ControlError(
                    f"{self._who} cannot open its socket {path}: {error.strerror}. Has the run "
                    "ended?"
                ) from error
            self._sockets.append(opened)
            bound = asyncio.Semaphore(_MAX_IN_PROGRESS if is_bounded else sys.maxsize)
            receiver = asyncio.ensure_future(self._receive(opened, serve, bound))
            receiver.add_done_callback(self._report_failure)
            self._receivers.append(receiver)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the requests under way, and let clients read the refusals for at most 0.5 s."""
        assert self._context is not None
        for receiver in self._receivers:
            receiver.cancel()
        await asyncio.gather(*self._receivers, return_exceptions=True)
        for result in self._results:
            result.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        for opened in self._sockets:
            opened.close(linger=_LINGER_MS)
        await asyncio.to_thread(self._context.term)  # without it, the end of the process loses them
        for path in self._serves:
            path.unlink(missing_ok=True)

    async def _receive(
        self, connection: zmq.asyncio.Socket, serve: Serve, bound: asyncio.Semaphore
    ) -> None:
        while True:
            await bound.acquire()
            client, *frames = await connection.recv_multipart()
            document = frames[1] if len(frames) == 2 else b""
            reply = self._reply(document, serve)
            request = asyncio.ensure_future(self._send(connection, client, reply))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            request.add_done_callback(lambda _: bound.release())

    def _report_failure(self, receiver: asyncio.Task[None]) -> None:
        """Tell the event loop, whose handler ends the process so that another replaces it."""
        if not receiver.cancelled():
            asyncio.get_running_loop().call_exception_handler(
                {
                    "message": f"{self._who} receives no more requests",
                    "exception": receiver.exception(),
                }
            )

    async def _send(
        self, connection: zmq.asyncio.Socket, client: bytes, reply: Awaitable[ControlReply]
    ) -> None:
        await connection.send_multipart([client, b"", (await reply).encoded(self._who)])

    async def _reply(self, document: bytes, serve: Serve) -> ControlReply:
        try:
            request = ControlRequest.parsed(document)
        except ControlError as error:
            return ControlReply.of_error(error, self._who, "a request")
        result = asyncio.ensure_future(serve(request))
        self._results.add(result)
        try:
            return ControlReply(ok=True, result=await result)
        except asyncio.CancelledError:
            return ControlReply.of_end(self._who, request.method)
        except Exception as error:
            return ControlReply.of_error(error, self._who, request.method)
        finally:
            self._results.discard(result)
