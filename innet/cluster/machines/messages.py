"""Messages between a machine and the launcher, and the frames of their streams.

A message is one ZeroMQ frame: a byte for its kind, then

* JOIN, REPLY: a JSON document; the only ones before a machine has joined;
* FRAME: number and acknowledgement (64 bits each), then a frame of the multiplexer;
* HEARTBEAT: an acknowledgement;
* BYE: why the sender ends the session, as text.

A frame is a byte for its type, the number of its stream (32 bits), and what its type needs. All
numbers are in network byte order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from importlib.metadata import version
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from innet.cluster.machines.token_file import MAX_MACHINES
from innet.printable import one_line
from innet.topology.names import NodeName
from innet.validation_messages import StrictModel, at_most, first_message

JOIN_FORMAT: Final = 1
MAX_MESSAGE_BYTES: Final = 1 << 18
MAX_DATA_BYTES: Final = 1 << 15
MAX_SOCKET_NAME_BYTES: Final = 80
MAX_REASON_BYTES: Final = 500
STARTER_VARIABLE: Final = "INNET_AGENT_STARTER"
"""Environment variable of an agent: the engine that started it, for people."""


class MalformedMessage(ValueError):
    """Bytes are no message or frame of this protocol."""


class Kind(IntEnum):
    """Kinds of messages."""

    JOIN = 1
    REPLY = 2
    FRAME = 3
    HEARTBEAT = 4
    BYE = 5


# Joining


def own_version() -> str:
    """The version of innet here; all machines of a network have the same."""
    return version("innet")


SessionId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class JoinRequest(BaseModel):
    """An agent's first message on each connection.

    Attributes:
        machines: the secrets of the machines that the agent may become; one if it has a name.
        preferred: the machine that this host has been before.
        session: made by the agent; with the same one after an interruption, streams go on.
        is_resumption: the session has begun, and is not to begin anew.
        received: number of the last frame that the agent has received in this session.
    """

    # A later version may add fields: its request is refused for its version, not for its form.
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    format: int = JOIN_FORMAT
    network: Annotated[str, Field(max_length=64), AfterValidator(one_line)]
    version: Annotated[str, Field(max_length=64), AfterValidator(one_line)]
    machines: Annotated[
        dict[NodeName, Annotated[str, Field(max_length=64)]],
        at_most(MAX_MACHINES),
        Field(min_length=1, repr=False),
    ]
    preferred: NodeName | None = None
    session: SessionId
    is_resumption: bool = False
    received: Annotated[int, Field(ge=0, lt=1 << 64)] = 0


class Heartbeats(StrictModel):
    """The interval of heartbeats, and the silence after which the other end counts as lost."""

    interval_s: Annotated[float, Field(gt=0, le=3600)] = 1.0
    timeout_s: Annotated[float, Field(gt=0, le=86400)] = 5.0


RefusalReason = Literal[
    "secret",
    "network",
    "version",
    "machine",
    "other-key",
    "connected",
    "full",
    "ending",
    "lost",
]
"""Why a machine may not join.

* ``secret``: not the secret of that machine; ``machine``: the network has no such machine;
* ``network``, ``version``: another network's name, another version of innet;
* ``other-key``: the secret was used before, by an agent with another key;
* ``connected``: the machine's agent is connected; ``full``: all machines have joined;
* ``ending``: the network is being taken down; ``lost``: the session to resume is over.
"""


class JoinRefusal(BaseModel):
    """The launcher does not admit the machine; ``message`` has the cause and the next step."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Literal["refusal"] = "refusal"
    reason: RefusalReason
    message: Annotated[str, Field(max_length=2000)]


class JoinAcceptance(BaseModel):
    """The launcher admits the machine.

    Attributes:
        machine: its name.
        is_resumed: the session goes on after an interruption.
        received: number of the last frame that the launcher has received in this session.
        heartbeats: of both ends.
        sockets: names of the launcher's sockets that the machine may connect to.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    kind: Literal["acceptance"] = "acceptance"
    machine: NodeName
    is_resumed: bool
    received: Annotated[int, Field(ge=0, lt=1 << 64)]
    heartbeats: Heartbeats
    sockets: tuple[str, ...]


JoinReply = Annotated[JoinAcceptance | JoinRefusal, Field(discriminator="kind")]
_reply: TypeAdapter[JoinAcceptance | JoinRefusal] = TypeAdapter(JoinReply)


def join_message(request: JoinRequest) -> bytes:
    """The message of a join request."""
    return bytes([Kind.JOIN]) + request.model_dump_json().encode()


def reply_message(reply: JoinAcceptance | JoinRefusal) -> bytes:
    """The message of a reply to a join request."""
    return bytes([Kind.REPLY]) + reply.model_dump_json().encode()


# Messages of a machine that has joined


@dataclass(frozen=True, slots=True)
class NumberedFrame:
    """A frame of a session, by its number."""

    number: int
    acknowledged: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat, with the number of the last frame that its sender has received."""

    acknowledged: int


@dataclass(frozen=True, slots=True)
class Bye:
    """The sender ends the session."""

    reason: str


Message = JoinRequest | JoinAcceptance | JoinRefusal | NumberedFrame | Heartbeat | Bye

_NUMBERED = struct.Struct("!BQQ")
_HEARTBEAT = struct.Struct("!BQ")


def frame_message(number: int, acknowledged: int, frame: bytes) -> bytes:
    """The message of a numbered frame."""
    return _NUMBERED.pack(Kind.FRAME, number, acknowledged) + frame


def heartbeat_message(acknowledged: int) -> bytes:
    """The message of a heartbeat."""
    return _HEARTBEAT.pack(Kind.HEARTBEAT, acknowledged)


def bye_message(reason: str) -> bytes:
    """The message of an end."""
    return bytes([Kind.BYE]) + _cut(reason)


def parse_message(message: bytes) -> Message:
    """Read a message.

    Raises:
        MalformedMessage: the bytes are no message.
    """
    if not message or len(message) > MAX_MESSAGE_BYTES:
        raise MalformedMessage(f"message of {len(message)} bytes")
    try:
        match message[0]:
            case Kind.JOIN:
                return JoinRequest.model_validate_json(message[1:])
            case Kind.REPLY:
                return _reply.validate_json(message[1:])
            case Kind.FRAME:
                _, number, acknowledged = _NUMBERED.unpack_from(message)
                return NumberedFrame(number, acknowledged, message[_NUMBERED.size :])
            case Kind.HEARTBEAT:
                return Heartbeat(_HEARTBEAT.unpack(message)[1])
            case Kind.BYE:
                return Bye(_text(message[1:], MAX_REASON_BYTES))
    except ValidationError as error:
        raise MalformedMessage(first_message(error)) from None
    except struct.error as error:
        raise MalformedMessage(str(error)) from error
    raise MalformedMessage(f"unknown kind {message[0]}")


# Frames of streams


class FrameType(IntEnum):
    """Types of frames."""

    OPEN = 1
    DATA = 2
    CREDIT = 3
    END = 4
    RESET = 5


@dataclass(frozen=True, slots=True)
class OpenFrame:
    """Opens a stream to a socket."""

    stream: int
    name: str

    def encoded(self) -> bytes:
        """The frame's bytes."""
        return _HEADER.pack(FrameType.OPEN, self.stream) + self.name.encode()


@dataclass(frozen=True, slots=True)
class DataFrame:
    """Bytes of a stream."""

    stream: int
    data: bytes

    def encoded(self) -> bytes:
        """The frame's bytes."""
        return _HEADER.pack(FrameType.DATA, self.stream) + self.data


@dataclass(frozen=True, slots=True)
class CreditFrame:
    """Credit for the receiver of this frame to send that many more bytes."""

    stream: int
    size_bytes: int

    def encoded(self) -> bytes:
        """The frame's bytes."""
        return _CREDIT.pack(FrameType.CREDIT, self.stream, self.size_bytes)


@dataclass(frozen=True, slots=True)
class EndFrame:
    """The sender sends nothing more on this stream, and still receives."""

    stream: int

    def encoded(self) -> bytes:
        """The frame's bytes."""
        return _HEADER.pack(FrameType.END, self.stream)


@dataclass(frozen=True, slots=True)
class ResetFrame:
    """The stream is over in both directions."""

    stream: int
    reason: str

    def encoded(self) -> bytes:
        """The frame's bytes."""
        return _HEADER.pack(FrameType.RESET, self.stream) + _cut(self.reason)


Frame = OpenFrame | DataFrame | CreditFrame | EndFrame | ResetFrame

_HEADER = struct.Struct("!BI")
_CREDIT = struct.Struct("!BII")


def parse_frame(frame: bytes) -> Frame:
    """Read a frame.

    Raises:
        MalformedMessage: the bytes are no frame.
    """
    try:
        kind, stream = _HEADER.unpack_from(frame)
        match kind:
            case FrameType.OPEN:
                name = _text(frame[_HEADER.size :], MAX_SOCKET_NAME_BYTES)
                return OpenFrame(stream, name)
            case FrameType.DATA:
                return DataFrame(stream, _data(frame[_HEADER.size :]))
            case FrameType.CREDIT:
                return CreditFrame(stream, _CREDIT.unpack(frame)[2])
            case FrameType.END if len(frame) == _HEADER.size:
                return EndFrame(stream)
            case FrameType.RESET:
                return ResetFrame(stream, _text(frame[_HEADER.size :], MAX_REASON_BYTES))
    except struct.error as error:
        raise MalformedMessage(str(error)) from error
    raise MalformedMessage(f"unknown frame type {kind} or wrong length {len(frame)}")


def _data(data: bytes) -> bytes:
    if not 0 < len(data) <= MAX_DATA_BYTES:
        raise MalformedMessage(f"{len(data)} bytes of data, expected 1 to {MAX_DATA_BYTES}")
    return data


def _text(text: bytes, most_bytes: int) -> str:
    if len(text) > most_bytes:
        raise MalformedMessage(f"text of {len(text)} bytes, expected at most {most_bytes}")
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise MalformedMessage(str(error)) from error


def _cut(text: str) -> bytes:
    """Text of at most :data:`MAX_REASON_BYTES`, whole characters."""
    return text.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore").encode()
