"""Serves an application over HTTP on a socket, in the event loop of a program (extra ``web``)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

_DATE_S: Final = 1.0
_MOST_CONNECTIONS: Final = 256


class _Server(uvicorn.Server):
    """Leaves signals to the program that it is part of."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Renew the date of responses each second; uvicorn's own loop wakes up ten times."""
        while not self._ending.is_set():
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _DATE_S)

    def end(self, *, cuts_responses: bool) -> None:
        self.should_exit = True
        self.force_exit = cuts_responses
        self._ending.set()


@asynccontextmanager
async def serving_http(
    app: ASGIApp,
    listener: socket.socket,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    cuts_responses: bool = False,
) -> AsyncIterator[None]:
    """Serve until the block ends, and close the listener.

    Args:
        app: what answers.
        listener: bound.
        certificate: of TLS, PEM; ``None``: without TLS.
        key: of the certificate.
        cuts_responses: end at once, also in the midst of responses, such as streams, which would
            never end by themselves; otherwise they have a second.
    """
    server = _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
    )
    if listener.family != socket.AF_UNIX:
        # Connections inherit it. asyncio sets it on sockets that name their protocol alone, and
        # without it a response's body waits for the acknowledgement of its head: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.end(cuts_responses=cuts_responses)
            await asyncio.gather(task, return_exceptions=True)
