"""The controller's socket, in its event loop: ZeroMQ (:mod:`innet.node.controller_client`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import zmq
import zmq.asyncio

from innet.errors import ControlError
from innet.node.controller_client import controller_address
from innet.node.requests import MAX_REQUEST_BYTES, Reply, Request

_LINGER_MS = 500
"""How long the end of the controller waits for clients that have not read their replies."""

Respond = Callable[[Request], Awaitable[Any]]
"""The result of a request; its errors become refusals."""


class ControllerServer:
    """Serves requests over ZeroMQ, as an async context manager.

    Requests of all clients are served at once. Replies to a client that is gone, or that does not
    read, are dropped.

    libzmq aborts a process that has no descriptor left for a client. A controller runs no user's
    program and takes as many as the system allows; at worst it is started again.
    """

    def __init__(self, path: Path, respond: Respond, *, who: str) -> None:
        self._path = path
        self._respond = respond
        self._who = who
        self._context: zmq.asyncio.Context | None = None
        self._socket: zmq.asyncio.Socket | None = None
        self._receiver: asyncio.Task[None] | None = None
        self._results: set[asyncio.Future[Any]] = set()
        self._requests: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """
        Raises:
            ControlError: the socket cannot be bound.
        """
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.maxmsgsize = MAX_REQUEST_BYTES
        try:
            self._socket.bind(controller_address(self._path))
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            raise ControlError(
                f"{self._who} cannot open its socket {self._path}: {error.strerror}. Has the run "
                "ended?"
            ) from error
        self._receiver = asyncio.ensure_future(self._receive(self._socket))
        self._receiver.add_done_callback(self._report_failure)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the requests under way, and let clients read the refusals for at most 0.5 s."""
        assert self._context is not None
        assert self._socket is not None
        assert self._receiver is not None
        self._receiver.cancel()
        await asyncio.wait([self._receiver])
        for result in self._results:
            result.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        self._socket.close(linger=_LINGER_MS)
        await asyncio.to_thread(self._context.term)  # without it, the end of the process loses them
        self._path.unlink(missing_ok=True)

    async def _receive(self, connection: zmq.asyncio.Socket) -> None:
        while True:
            client, *frames = await connection.recv_multipart()
            document = frames[1] if len(frames) == 2 else b""
            request = asyncio.ensure_future(self._serve(connection, client, document))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)

    def _report_failure(self, receiver: asyncio.Task[None]) -> None:
        """Tell the event loop, whose handler ends the process so that another replaces it."""
        if not receiver.cancelled():
            asyncio.get_running_loop().call_exception_handler(
                {
                    "message": f"{self._who} receives no more requests",
                    "exception": receiver.exception(),
                }
            )

    async def _serve(self, connection: zmq.asyncio.Socket, client: bytes, document: bytes) -> None:
        reply = await self._reply(document)
        await connection.send_multipart([client, b"", reply.encoded(self._who)])

    async def _reply(self, document: bytes) -> Reply:
        try:
            request = Request.parsed(document)
        except ControlError as error:
            return Reply.of_error(error, self._who, "a request")
        result = asyncio.ensure_future(self._respond(request))
        self._results.add(result)
        try:
            return Reply(ok=True, result=await result)
        except asyncio.CancelledError:
            return Reply(ok=False, error=f"{self._who} ended before {request.method!r} did")
        except Exception as error:
            return Reply.of_error(error, self._who, request.method)
        finally:
            self._results.discard(result)
