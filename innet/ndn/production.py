"""Handlers of prefixes, and the answers to Interests. Sans-IO except for awaiting a handler."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from innet.errors import MalformedPacket, TransportError
from innet.names import Name, without_digest
from innet.ndn import wire
from innet.ndn.wire import ReceivedInterest
from innet.tlv_numbers import NackReason


@dataclass(frozen=True)
class Refusal:
    """A handler's answer to an Interest that it will not serve: sent as a Nack."""

    reason: int = NackReason.NO_ROUTE


Answer = bytes | Refusal | None
"""A Data packet (see :func:`innet.ndn.wire.encode_data`), a refusal, or silence."""
Handler = Callable[[ReceivedInterest], Answer | Awaitable[Answer]]

_log = logging.getLogger(__name__)


class Producers:
    """Handlers by prefix; the longest one that fits an Interest serves it."""

    def __init__(self) -> None:
        self._handlers: dict[Name, Handler] = {}

    def add(self, prefix: Name, handler: Handler) -> None:
        """Let ``handler`` answer Interests below ``prefix``, in place of an earlier one."""
        self._handlers[prefix] = handler

    def remove(self, prefix: Name) -> None:
        """Stop answering Interests below ``prefix``."""
        self._handlers.pop(prefix, None)

    def get(self, prefix: Name) -> Handler | None:
        """The handler of exactly this prefix."""
        return self._handlers.get(prefix)

    def handler_of(self, name: Name) -> Handler | None:
        """The handler that serves ``name``."""
        for length in range(len(name), -1, -1):
            if handler := self._handlers.get(name.prefix(length)):
                return handler
        return None


class Answers:
    """Turns the answers of handlers into packets; drops, logs and counts those that are no answer.

    Attributes:
        dropped: how many answers were dropped, by reason: ``exception``, ``type``, ``malformed``,
            ``size`` or ``name``.
    """

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()

    def of(
        self, handler: Handler, interest: ReceivedInterest, pit_token: bytes
    ) -> bytes | Awaitable[bytes | None] | None:
        """The packet to send, or an awaitable of it; ``None`` where nothing is to be sent."""
        try:
            answer = handler(interest)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a cancellation as well: it would end the connection
            self._failed(interest)
            return None
        if inspect.isawaitable(answer):
            return self._awaited(answer, interest, pit_token)
        return self._packet(answer, interest, pit_token)

    async def _awaited(
        self, answer: Awaitable[Answer], interest: ReceivedInterest, pit_token: bytes
    ) -> bytes | None:
        try:
            awaited = await answer
        except Exception:
            self._failed(interest)
            return None
        return self._packet(awaited, interest, pit_token)

    def _packet(self, answer: object, interest: ReceivedInterest, pit_token: bytes) -> bytes | None:
        if answer is None:
            return None
        try:
            if isinstance(answer, Refusal):
                return wire.encode_lp_packet(
                    interest.wire, pit_token=pit_token, nack_reason=answer.reason
                )
            packet = _checked_data(answer, interest)
            return wire.encode_lp_packet(packet, pit_token=pit_token) if pit_token else packet
        except _NotAnAnswer as error:
            self._drop(error.reason, interest, str(error))
        except (TypeError, ValueError, OverflowError) as error:
            self._drop("type", interest, f"its Nack cannot be sent: {error}")
        return None

    def _failed(self, interest: ReceivedInterest) -> None:
        self.dropped["exception"] += 1
        _log.exception("the producer of %s failed", interest.name)

    def _drop(self, reason: str, interest: ReceivedInterest, why: str) -> None:
        self.dropped[reason] += 1
        _log.error("dropped the answer of the producer of %s: %s", interest.name, why)


class _NotAnAnswer(Exception):
    def __init__(self, reason: str, why: str) -> None:
        self.reason = reason
        super().__init__(why)


def _checked_data(answer: object, interest: ReceivedInterest) -> bytes:
    """``answer``, if it is one Data packet that other NDN implementations accept for the Interest.

    Raises:
        _NotAnAnswer: it is not.
    """
    if not isinstance(answer, bytes | bytearray | memoryview):
        raise _NotAnAnswer(
            "type",
            f"it is of type {type(answer).__name__}, expected bytes (a Data packet, see "
            "encode_data), Refusal or None",
        )
    packet = bytes(answer)
    try:
        data = wire.parse_data(packet)
    except MalformedPacket as error:
        raise _NotAnAnswer(
            "malformed", f"it is not a Data packet ({error}); use encode_data"
        ) from None
    try:
        wire.check_size(packet, data.name)
    except TransportError as error:
        raise _NotAnAnswer("size", str(error)) from None
    expected = without_digest(interest.name)
    has_digest = expected != interest.name
    if data.name != expected and (
        has_digest or not interest.can_be_prefix or not expected.is_prefix_of(data.name)
    ):
        raise _NotAnAnswer(
            "name", f"its name {data.name} does not answer the Interest; use interest.name"
        )
    return packet
