"""Lets other terminals use a running session: run jobs on it, read its kernel's counters.

A stream socket and not the control sockets' request and reply, because a job must not outlive
whoever asked for it: when the connection ends, by whatever cause, the job is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from innet.cluster.launch.messages import (
    MAX_MESSAGE_BYTES,
    Counters,
    CountersRequest,
    JobEnd,
    JobRequest,
    OutputLine,
    Refusal,
    encoded,
    request_adapter,
)
from innet.errors import InnetError, JobFailed
from innet.telemetry.logs.output import OutputSink

RunJob = Callable[[JobRequest, OutputSink], Awaitable[tuple[str, ...]]]
"""Runs a job, and hands each line of its output to the sink."""
ReadCounters = Callable[[], Awaitable[Counters]]

_MAX_UNREAD_BYTES = 16 << 20
"""Output that a client which does not read may leave with us; more is dropped, and said so."""

_log = logging.getLogger(__name__)


class SessionServer:
    """Answers on the socket of one session, as an async context manager."""

    def __init__(self, path: Path, run_job: RunJob, read_counters: ReadCounters) -> None:
        self._path = path
        self._run_job = run_job
        self._read_counters = read_counters
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(
            self._accept, self._path, limit=MAX_MESSAGE_BYTES
        )
        return self

    async def __aexit__(self, *_: object) -> None:
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
        try:
            request = request_adapter.validate_json(await reader.readline())
            if isinstance(request, CountersRequest):
                writer.write(encoded(await self._read_counters()))
            else:
                writer.write(encoded(await self._job(request, reader, writer)))
            await writer.drain()
        except (ValidationError, ValueError) as error:
            writer.write(encoded(Refusal(error=f"not a request to a session: {error}")))
        except InnetError as error:
            writer.write(encoded(Refusal(error=str(error))))
        except OSError as error:
            _log.info("a client of the session went away: %s", error)
        finally:
            writer.close()

    async def _job(
        self, request: JobRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> JobEnd:
        output = _JobOutput(writer)
        job = asyncio.ensure_future(self._run_job(request, output))
        hung_up = asyncio.ensure_future(reader.read())
        try:
            await asyncio.wait([job, hung_up], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancelled(job)
            return JobEnd(exit_code=1, error="the network was taken down while the job ran")
        finally:
            hung_up.cancel()
        if not job.done():
            await _cancelled(job)
            return JobEnd(exit_code=1, error="the job was cancelled")
        try:
            return JobEnd(exit_code=0, lost=job.result())
        except JobFailed as error:
            return JobEnd(exit_code=error.exit_code, error=str(error))
        except InnetError as error:
            return JobEnd(exit_code=1, error=str(error))


class _JobOutput:
    """Sends lines to a client, as long as it reads them."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._dropped = 0

    def __call__(self, label: str, text: str) -> None:
        if self._writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self._dropped += 1
            return
        if self._dropped:
            note = f"{self._dropped} lines were dropped: nobody read them"
            self._dropped = 0
            self._send("innet", note)
        self._send(label, text)

    def _send(self, label: str, text: str) -> None:
        self._writer.write(encoded(OutputLine(label=label, text=text)))


async def _cancelled(job: asyncio.Future[tuple[str, ...]]) -> None:
    job.cancel()
    await asyncio.wait([job])
