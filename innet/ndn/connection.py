"""A connection to a forwarder that is made anew whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from innet.backoff import Backoff
from innet.errors import NoForwarder
from innet.ndn.address import FaceAddress
from innet.ndn.face import Face, OnPacket, connect

_log = logging.getLogger(__name__)


class LastingConnection:
    """Sends while it is up, drops while it is down, and tells when it is up again.

    Args:
        address: of the forwarder.
        on_packet: gets each packet.
        on_restored: called after each loss, once the forwarder is back.
    """

    def __init__(
        self, address: FaceAddress, on_packet: OnPacket, on_restored: Callable[[], None]
    ) -> None:
        self.address = address
        self.trouble: str | None = None
        """Why it is down, or was last; ``None`` when it never was."""
        self._on_packet = on_packet
        self._backoff = Backoff(0.1, 5.0, variation=0)
        self._on_restored = on_restored
        self._face: Face | None = None
        self._restoring: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Connect.

        Raises:
            NoForwarder: nothing listens there.
        """
        self._face = await connect(self.address, self._received, self._lost)

    def send(self, packet: bytes) -> None:
        """Send one packet, if the forwarder is there."""
        if self._face is not None:
            self._face.send(packet)

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        if self._face is not None:
            self._face.close()
            self._face = None

    def _received(self, packet: bytes) -> None:
        self._backoff.reset()
        self._on_packet(packet)

    def _lost(self, why: str) -> None:
        self.trouble = why
        if self._face is not None:
            self._face.close()
            self._face = None
        if self._closed or (self._restoring is not None and not self._restoring.done()):
            return
        _log.warning("the connection to %s is lost (%s); trying again", self.address, why)
        self._restoring = asyncio.get_running_loop().create_task(self._restore())

    async def _restore(self) -> None:
        while self._face is None:
            await self._open_again()
            _log.info("connected to %s again", self.address)
            # Over UDP, opening succeeds wherever: what is sent now may show that nobody is there.
            self._on_restored()

    async def _open_again(self) -> None:
        while self._face is None:
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self.open()
            except NoForwarder as error:
                self.trouble = str(error)
