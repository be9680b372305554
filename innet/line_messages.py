"""Messages between processes that are lines of JSON."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from innet.errors import EmulationError


class LineMessage(BaseModel):
    """A message that is sent as one line. Fields that nobody knows are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def line(self) -> bytes:
        """The message as it is sent."""
        return self.model_dump_json().encode() + b"\n"


_Message = TypeVar("_Message", bound=LineMessage)


async def receive(
    reader: asyncio.StreamReader, kind: type[_Message], who: str, *, leaves: str = ""
) -> _Message:
    """The next message, which is one of ``kind``.

    Args:
        reader: of the connection.
        kind: of the message that is due.
        who: is at the other end, for people.
        leaves: what it is a part of, for people.
    """
    try:
        line = await reader.readline()
    except ConnectionError:  # it left with something unread
        line = b""
    if not line:
        raise EmulationError(" ".join(filter(None, (who, "has left", leaves))))
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        raise EmulationError(f"{who} said {line[:100]!r} where {kind.__name__} was due") from error
