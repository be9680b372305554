"""The streams between the launcher and one machine, for the length of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from innet.cluster.machines.messages import Heartbeat, NumberedFrame
from innet.cluster.machines.relay import Relay
from innet.cluster.machines.resumption import MAX_BACKLOG, BrokenSession, ResumableSession


class Tunnel:
    """The relayed streams of one session, over one connection after the other."""

    def __init__(self, *, is_launcher: bool) -> None:
        self._session = ResumableSession()
        self._transmit: Callable[[bytes], None] | None = None
        self._early: list[bytes] | None = []
        """Frames that arrived before :meth:`start`."""
        self._relay = Relay(self._send, is_launcher=is_launcher, has_room=self._has_room)

    @property
    def received(self) -> int:
        """Number of the last frame that has arrived."""
        return self._session.received

    @property
    def violations(self) -> int:
        """Frames of the other end that broke the rules."""
        return self._relay.violations

    # Sockets

    def start(self) -> None:
        """Begin to process the other end's frames, which are kept until then."""
        early, self._early = self._early or [], None
        for frame in early:
            self._relay.receive(frame)

    def offer(self, sockets: Mapping[str, Path]) -> None:
        """Let the other end connect to these sockets, by the names that it uses."""
        self._relay.offer(sockets)

    async def listen(self, folder: Path, names: Iterable[str]) -> None:
        """Accept connections on sockets of these names, for the other end's of the same names."""
        await self._relay.listen(folder, names)

    async def close(self) -> None:
        """Close all sockets and connections here."""
        self._transmit = None
        await self._relay.close()

    # The connection

    def resume(self, received: int, transmit: Callable[[bytes], None]) -> None:
        """Send over a new connection, first what the other end has not received.

        Raises:
            BrokenSession: the other end lacks what is no longer here.
        """
        again = self._session.resumed(received)
        self._transmit = transmit
        for message in again:
            transmit(message)

    def interrupt(self) -> None:
        """There is no connection for now: keep what is to be sent."""
        self._transmit = None

    def heartbeat(self) -> None:
        """Send a sign of life."""
        if self._transmit is not None:
            self._transmit(self._session.heartbeat())

    def take(self, message: NumberedFrame | Heartbeat) -> None:
        """Take a message of the other end.

        Raises:
            BrokenSession: it contradicts earlier ones.
        """
        if isinstance(message, Heartbeat):
            self._session.on_acknowledgement(message.acknowledged)
            return
        frame = self._session.take(message)
        if self._early is None:
            self._relay.receive(frame)
        else:
            if len(self._early) >= MAX_BACKLOG:
                raise BrokenSession("too much came before this end has begun to serve")
            self._early.append(frame)
        if self._session.is_acknowledgement_due:
            self.heartbeat()

    def _send(self, frame: bytes) -> None:
        message = self._session.message_of(frame)
        if self._transmit is not None:
            self._transmit(message)

    def _has_room(self) -> bool:
        return self._session.backlog < MAX_BACKLOG
