"""Requests and replies (:mod:`innet.node.requests`) in an event loop: server and client.

A handler may send documents before its reply, such as the lines that a job prints. It is cancelled
when its client disconnects.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from socket import SO_PEERCRED, SOL_SOCKET
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from innet.errors import ControlError
from innet.node.requests import (
    DEFAULT_TIMEOUT_S,
    MAX_REQUEST_BYTES,
    ControlReply,
    ControlRequest,
    no_answer,
    no_message,
)
from innet.validation_messages import first_message

_CONNECT_PAUSE_S = 0.02

_log = logging.getLogger(__name__)


class Ahead(BaseModel):
    """A document ahead of a reply."""

    model_config = ConfigDict(extra="forbid")

    ahead: Any


_documents: TypeAdapter[Ahead | ControlReply] = TypeAdapter(Ahead | ControlReply)


_MAX_UNREAD_BYTES = 16 << 20


class ClientConnection:
    """A client of a server, as a handler sees it."""

    def __init__(self, writer: asyncio.StreamWriter, next_line: asyncio.Future[bytes]) -> None:
        """``next_line``: what the client sends after the request that is served."""
        self._writer = writer
        self._next_line = next_line

    @property
    def is_far_behind(self) -> bool:
        """Whether so much is unread that output is to be dropped."""
        return self._writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES

    @property
    def pid(self) -> int:
        """The process that connected, from the kernel; 0 in another namespace of pids."""
        connection = self._writer.get_extra_info("socket")
        pid, _, _ = struct.unpack("3i", connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        return int(pid)

    async def next_request(self) -> None:
        """Wait until the client sends its next request; the reply to this one is due then."""
        await asyncio.wait([self._next_line])
        if not _is_request(self._next_line):
            await asyncio.Event().wait()  # it has hung up: the server cancels this request

    def send(self, document: BaseModel) -> None:
        """Send a document ahead of the reply."""
        self._writer.write(Ahead(ahead=document).model_dump_json().encode() + b"\n")


Respond = Callable[[ControlRequest, ClientConnection], Awaitable[Any]]
"""The result of a request; its errors become refusals."""


class RequestServer:
    """Serves requests on a Unix socket, as an async context manager.

    The requests of one client are served one after the other, those of several at once.
    """

    def __init__(
        self, path: Path, respond: Respond, *, who: str, max_bytes: int = MAX_REQUEST_BYTES
    ) -> None:
        """
        Args:
            max_bytes: of a request; a client that sends a longer one is disconnected.
        """
        self._path = path
        self._respond = respond
        self._who = who
        self._max_bytes = max_bytes
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        try:
            self._path.unlink(missing_ok=True)  # a dead process may have left it
            self._server = await asyncio.start_unix_server(
                self._accept, self._path, limit=self._max_bytes, backlog=256
            )
        except OSError as error:
            raise ControlError(
                f"{self._who} cannot open its socket {self._path}: {error.strerror}. Has the run "
                "ended?"
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel the requests in progress, with an error to their clients."""
        self._is_closing = True
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.ensure_future(reader.readline())
        try:
            while (document := await line).endswith(b"\n"):
                line = asyncio.ensure_future(reader.readline())
                reply = await self._reply(document, ClientConnection(writer, line), line)
                writer.write(reply.encoded(self._who) + b"\n")
                await writer.drain()
                if self._is_closing:
                    return
        except (OSError, ValueError) as error:  # ValueError: a line without end
            _log.info("a client of %s went away: %s", self._who, error)
        finally:
            line.cancel()
            writer.close()

    async def _reply(
        self, document: bytes, client: ClientConnection, next_line: asyncio.Future[bytes]
    ) -> ControlReply:
        try:
            request = ControlRequest.parsed(document)
        except ControlError as error:
            return ControlReply.of_error(error, self._who, "a request")
        result = asyncio.ensure_future(self._respond(request, client))
        try:
            await asyncio.wait([result, next_line], return_when=asyncio.FIRST_COMPLETED)
            if not result.done() and not _is_request(next_line):
                result.cancel()  # the client has hung up, or was killed with documents unread
            return ControlReply(ok=True, result=await result)
        except asyncio.CancelledError:
            if not result.done():
                result.cancel()
                await asyncio.wait([result])
            return ControlReply.of_end(self._who, request.method)
        except Exception as error:
            return ControlReply.of_error(error, self._who, request.method)


def _is_request(line: asyncio.Future[bytes]) -> bool:
    """Whether a client has sent a whole line; a part of one before the end is no request."""
    return line.exception() is None and line.result().endswith(b"\n")


class RequestClient:
    """Sends requests to one server, one after the other; it connects with the first.

    A request whose server ended without a reply is not sent again.

    Attributes:
        lost_s: when the server refused a connection or closed one, by the loop's clock; ``None``
            since it replied, and while its socket is not there.
        is_refused: whether it has refused one since.
    """

    lost_s: float | None = None
    is_refused = False

    def __init__(
        self,
        path: Path,
        *,
        who: str,
        is_patient: bool = True,
        max_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        """
        Args:
            who: answers, for people.
            max_bytes: of a document of the server.
            is_patient: a server that is not there is waited for until a request's time is up;
                otherwise such a request fails at once.
        """
        self._path = path
        self._who = who
        self._is_patient = is_patient
        self._max_bytes = max_bytes
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_owed = False
        """Whether the reply to a cancelled request may yet come."""

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        on_document: Callable[[Any], object] = lambda _document: None,
    ) -> Any:
        """The result of ``method``.

        Args:
            timeout_s: for the reply; ``None``: any time.
            on_document: takes each document that the server sends ahead of the reply.

        Raises:
            NoAnswer: no reply in time, or the server is not there and not waited for.
            ControlError: the reply is a refusal.
        """
        document = ControlRequest(method=method, params=dict(params)).model_dump_json()
        request = document.encode() + b"\n"
        obstacle: OSError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        reader = await self._send(request)
                        break
                    except OSError as error:  # no server listens yet, or no longer
                        obstacle = error
                        self._note_loss(error)
                        self.close()
                        if not self._is_patient:
                            raise TimeoutError from error
                        await asyncio.sleep(_CONNECT_PAUSE_S)
                reply = await self._reply(reader, method, on_document)
        except asyncio.CancelledError:
            self._is_owed = True
            raise
        except TimeoutError:
            self.close()  # the reply may yet come, and would be taken for the next one's
            raise no_answer(self._who, method, timeout_s, obstacle) from None
        return reply.value(self._who)

    async def connect(self) -> None:
        """Connect before the first request.

        Raises:
            OSError: the server is not there.
        """
        self._streams = await asyncio.open_unix_connection(self._path, limit=self._max_bytes)

    async def _send(self, request: bytes) -> asyncio.StreamReader:
        if self._is_owed:
            self.close()
        if self._streams is not None and self._streams[0].at_eof():
            self._note_loss(ConnectionResetError())
            self.close()  # the server has ended
        if self._streams is None:
            await self.connect()
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(request)
        await writer.drain()
        return reader

    async def _reply(
        self, reader: asyncio.StreamReader, method: str, on_document: Callable[[Any], object]
    ) -> ControlReply:
        while True:
            try:
                line = await reader.readline()
            except OSError:
                line = b""
            except ValueError as error:  # a line without end
                self.close()
                raise ControlError(
                    f"{self._who} replied to {method!r} with more than {self._max_bytes} bytes"
                ) from error
            is_whole = line.endswith(b"\n")
            if is_whole:
                self.lost_s, self.is_refused = None, False
            else:
                self._note_loss(ConnectionResetError())
            if not is_whole and self._is_patient:
                await asyncio.Event().wait()  # whether it ended or hangs is the same to the caller
            if not is_whole:
                raise TimeoutError
            parsed = parsed_document(line, self._who, method)
            if isinstance(parsed, ControlReply):
                return parsed
            on_document(parsed.ahead)

    def _note_loss(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            self.lost_s, self.is_refused = None, False
        elif self.lost_s is None:
            self.lost_s = asyncio.get_running_loop().time()
        self.is_refused |= isinstance(error, ConnectionRefusedError)

    async def hang_up(self) -> None:
        """Send no more, and wait until the server has closed the connection."""
        if self._streams is not None:
            reader, writer = self._streams
            writer.write_eof()
            while await reader.read(1 << 16):
                pass

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
        self._is_owed = False


_ModelT = TypeVar("_ModelT", bound=BaseModel)


def checked(model: type[_ModelT], document: object, who: str) -> _ModelT:
    """What ``who`` has sent, as a model.

    Raises:
        ControlError: it is something else.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ControlError(
            f"{who} sent something else than a {model.__name__}: {first_message(error)}"
        ) from None


def parsed_document(line: bytes, who: str, method: str) -> Ahead | ControlReply:
    """The next document of a server."""
    try:
        return _documents.validate_json(line)
    except ValidationError as error:
        raise no_message(who, method) from error
