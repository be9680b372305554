"""A server of the live view on a thread, for tests that connect to it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from urllib.parse import urlsplit

from innet.observe.web.document import Line
from innet.observe.web.live import View
from innet.observe.web.server import WebOptions, serving


@dataclass(frozen=True)
class Site:
    """A view that is served, and the link to it."""

    link: str
    view: View
    loop: asyncio.AbstractEventLoop

    def append(self, line: Line) -> None:
        """Add a line to the view, on the thread that serves it."""
        self.loop.call_soon_threadsafe(self.view.append, line)


@contextlib.contextmanager
def served(view: View, options: WebOptions | None = None) -> Iterator[Site]:
    """Serve a view."""
    link: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stopping = asyncio.Event()

    async def serve() -> None:
        async with serving(view, options or WebOptions()) as made:
            link.set_result(made)
            await stopping.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield Site(link.result(30), view, loop)
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        loop.close()


class Client:
    """A client that is no browser, and can lie."""

    def __init__(self, link: str, tls: ssl.SSLContext | None = None) -> None:
        """``tls``: of a link with ``https``."""
        parts = urlsplit(link)
        self._scheme, self._tls = parts.scheme, tls
        self.token = parts.fragment.partition("=")[2]
        self.netloc = parts.netloc
        self._host, self._port = parts.hostname or "", parts.port
        self.session = ""

    def ask(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and the body; of a stream, what it begins with, to the first event."""
        connection = self._connection()
        given = {"Host": self.netloc, "Authorization": self._authorization}
        if method == "POST":
            given["Origin"] = f"{self._scheme}://{self.netloc}"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(connection):
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {k: v for k, v in given.items() if v})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            is_stream = names.get("content-type", "").startswith("text/event-stream")
            return answer.status, names, _first_event(answer) if is_stream else answer.read()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=30)
        return http.client.HTTPSConnection(self._host, self._port, timeout=30, context=self._tls)

    def read_lines(self) -> None:
        """Read the stream of lines until the server ends."""
        connection = http.client.HTTPConnection(self._host, self._port)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            connection.request("GET", "/lines", headers={"Authorization": self._authorization})
            answer = connection.getresponse()
            while answer.readline():
                pass

    def enter(self) -> int:
        """Exchange the token for the secret of a session; the status."""
        status, _, body = self.ask("POST", "/session", {"token": self.token})
        self.session = json.loads(body).get("session", "")
        return status

    @property
    def _authorization(self) -> str:
        return f"Bearer {self.session}" if self.session else ""


def _first_event(stream: http.client.HTTPResponse) -> bytes:
    lines: list[bytes] = []
    while not any(line.startswith(b"data:") for line in lines):
        lines.append(stream.readline())
    return b"".join(lines)
