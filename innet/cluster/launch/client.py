"""Uses a session of another process, whose end is :mod:`innet.cluster.launch.server`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import ValidationError

from innet.cluster.emulation.runs import RunRecord
from innet.cluster.emulation.termination import TerminationSignals
from innet.cluster.launch.messages import (
    MAX_MESSAGE_BYTES,
    SESSION_SOCKET_NAME,
    Counters,
    CountersRequest,
    JobEnd,
    JobRequest,
    OutputLine,
    Refusal,
    Reply,
    Request,
    encoded,
    reply_adapter,
)
from innet.errors import EmulationError
from innet.telemetry.logs.output import OutputSink

_COUNTERS_TIMEOUT_S = 10.0


async def run_job(record: RunRecord, request: JobRequest, output: OutputSink) -> JobEnd:
    """Run a job on the network of ``record``, which another process holds.

    Ctrl-C and SIGTERM cancel it, and then end this program once the workers are gone.

    Raises:
        EmulationError: the session does not answer, or ends in the middle.
    """
    async with _connection(record) as (reader, writer):
        signals = TerminationSignals(hurry=writer.close)
        signals.install()
        try:
            try:
                return await _follow(record, request, reader, writer, output)
            except asyncio.CancelledError:
                writer.write_eof()
                await _last_message(reader)
                signals.raise_received()
                raise
        finally:
            signals.restore()


async def read_counters(record: RunRecord) -> Counters:
    """What the kernel has counted on the links of a run (nothing in local mode).

    Raises:
        EmulationError: the session does not answer.
    """
    async with _connection(record) as (reader, writer):
        writer.write(encoded(CountersRequest()))
        try:
            reply = await asyncio.wait_for(_read(record, reader), _COUNTERS_TIMEOUT_S)
        except TimeoutError:
            raise EmulationError(
                f"the launcher of {record.run_id} does not answer. `innet down {record.run_id}` "
                "ends it."
            ) from None
    if not isinstance(reply, Counters):
        raise _unexpected(record, reply)
    return reply


async def _follow(
    record: RunRecord,
    request: Request,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    output: OutputSink,
) -> JobEnd:
    writer.write(encoded(request))
    while True:
        reply = await _read(record, reader)
        if isinstance(reply, OutputLine):
            output(reply.label, reply.text)
        elif isinstance(reply, JobEnd):
            return reply
        else:
            raise _unexpected(record, reply)


async def _last_message(reader: asyncio.StreamReader) -> None:
    """Wait until the session has ended the workers and hangs up."""
    while await reader.read(1 << 16):
        pass


async def _read(record: RunRecord, reader: asyncio.StreamReader) -> Reply:
    line = await reader.readline()
    if not line:
        raise EmulationError(
            f"the launcher of {record.run_id} ended. `innet down {record.run_id}` removes what is "
            "left."
        )
    try:
        return reply_adapter.validate_json(line)
    except ValidationError as error:
        raise EmulationError(
            f"the launcher of {record.run_id} does not speak this version of innet; use the "
            "installation that launched it"
        ) from error


def _unexpected(record: RunRecord, reply: Reply) -> EmulationError:
    if isinstance(reply, Refusal):
        return EmulationError(reply.error)
    return EmulationError(f"the launcher of {record.run_id} answered with a {reply.kind!r} message")


@asynccontextmanager
async def _connection(
    record: RunRecord,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    path = record.run_dir / SESSION_SOCKET_NAME
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=MAX_MESSAGE_BYTES)
    except OSError as error:
        raise EmulationError(
            f"the launcher of {record.run_id} cannot be reached ({error.strerror}). It may be "
            f"starting yet; `innet status` tells, `innet down {record.run_id}` ends it."
        ) from error
    try:
        yield reader, writer
    finally:
        writer.close()
