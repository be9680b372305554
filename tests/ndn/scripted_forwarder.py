"""The other end of a client's connection, as a script: sees its packets, says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from innet._native import _core
from innet.ndn import encode_data
from innet.ndn.face import StreamFramer
from innet.ndn.wire import ReceivedInterest, parse_interest, parse_lp_packet
from innet.tlv_numbers import TlvType

Script = Callable[[ReceivedInterest], bytes | None]


def control_response(interest: ReceivedInterest, code: int = 200, text: str = "OK") -> bytes:
    """The answer to a management command."""
    fields = _core.encode_number_element(0x66, code) + _core.encode_element(0x67, text.encode())
    return encode_data(interest.name, _core.encode_element(0x65, fields), freshness_s=1)


class ScriptedForwarder:
    """Listens on a Unix socket; answers Interests by ``script``, management by success."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.script: Script = lambda interest: None
        self.commands: Script = control_response
        self.interests: list[ReceivedInterest] = []
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self._came = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def uri(self) -> str:
        return f"unix://{self.path}"

    @property
    def command_names(self) -> list[str]:
        """Of the commands that came: ``rib/register``."""
        return [
            "/".join(str(interest.name).split("/")[3:5])
            for interest in self.interests
            if str(interest.name).startswith("/localhost/nfd/")
        ]

    async def __aenter__(self) -> ScriptedForwarder:
        await self.listen()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def listen(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        """Close every connection and listen no more."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for Interests until ``holds()``."""
        while not holds():
            self._came.clear()
            await self._came.wait()

    def send(self, packet: bytes) -> None:
        """Say something to the clients unasked."""
        for writer in self._writers:
            writer.write(packet)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        framer = StreamFramer()
        while received := await reader.read(65536):
            for packet in framer.feed(received):
                if answer := self._answer(packet):
                    writer.write(answer)

    def _answer(self, packet: bytes) -> bytes | None:
        payload = parse_lp_packet(packet).payload
        if payload[0] == TlvType.DATA or payload != packet:
            self.received.put_nowait(packet)
            return None
        interest = parse_interest(payload)
        self.interests.append(interest)
        self._came.set()
        is_command = str(interest.name).startswith("/localhost/nfd/")
        return (self.commands if is_command else self.script)(interest)
