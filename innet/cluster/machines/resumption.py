"""Frames that survive an interruption of the connection, without input and output.

Each end numbers its frames, keeps those that the other has not acknowledged, and sends them again
over the next connection. The windows of the streams bound the kept frames.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from innet.cluster.machines.messages import NumberedFrame, frame_message, heartbeat_message

_FRAMES_PER_ACKNOWLEDGEMENT: Final = 32
MAX_BACKLOG: Final = 1 << 16
"""Frames that wait for an acknowledgement, above which nothing new is begun.

Twice as many end the session: the other end provokes frames, such as resets, and acknowledges none.
"""


class BrokenSession(Exception):
    """The other end contradicts an earlier frame or acknowledgement."""


class ResumableSession:
    """The numbered frames of one session, in both directions."""

    def __init__(self) -> None:
        self._sent = 0
        self._received = 0
        self._acknowledged = 0
        """Number of the last frame that was acknowledged to the other end."""
        self._unacknowledged: deque[tuple[int, bytes]] = deque()

    @property
    def received(self) -> int:
        """Number of the last frame that has arrived here."""
        return self._received

    @property
    def backlog(self) -> int:
        """How many frames wait for an acknowledgement."""
        return len(self._unacknowledged)

    @property
    def is_acknowledgement_due(self) -> bool:
        """Whether to acknowledge received frames now, without waiting for a frame to send."""
        return self._received - self._acknowledged >= _FRAMES_PER_ACKNOWLEDGEMENT

    def message_of(self, frame: bytes) -> bytes:
        """The message of a new frame, which is kept until it is acknowledged."""
        self._sent += 1
        self._unacknowledged.append((self._sent, frame))
        return self._numbered(self._sent, frame)

    def heartbeat(self) -> bytes:
        """A heartbeat, which acknowledges all that has arrived."""
        self._acknowledged = self._received
        return heartbeat_message(self._received)

    def take(self, message: NumberedFrame) -> bytes:
        """The frame of a message.

        Raises:
            BrokenSession: it is not the next one, acknowledges what was never sent from here, or
                too little of what was.
        """
        self.on_acknowledgement(message.acknowledged)
        if self.backlog > 2 * MAX_BACKLOG:
            raise BrokenSession(f"{self.backlog} frames without an acknowledgement")
        if message.number != self._received + 1:
            raise BrokenSession(f"frame {message.number} after {self._received}")
        self._received = message.number
        return message.frame

    def on_acknowledgement(self, number: int) -> None:
        """The other end has received all frames up to ``number``.

        Raises:
            BrokenSession: so many were never sent.
        """
        if number > self._sent:
            raise BrokenSession(f"acknowledgement of frame {number} of {self._sent}")
        while self._unacknowledged and self._unacknowledged[0][0] <= number:
            self._unacknowledged.popleft()

    def resumed(self, received: int) -> list[bytes]:
        """The messages to send again over a new connection, whose other end has ``received``.

        Raises:
            BrokenSession: frames that it lacks are no longer here, or were never sent.
        """
        first = self._unacknowledged[0][0] if self._unacknowledged else self._sent + 1
        if received < first - 1:
            raise BrokenSession(f"frame {received + 1} is needed again, the oldest kept is {first}")
        self.on_acknowledgement(received)
        return [self._numbered(number, frame) for number, frame in self._unacknowledged]

    def _numbered(self, number: int, frame: bytes) -> bytes:
        self._acknowledged = self._received
        return frame_message(number, self._received, frame)
