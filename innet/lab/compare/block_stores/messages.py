"""What a contest of block stores and its clients say to each other: lines of JSON.

A client connects to the contest's Unix socket and says :class:`Hello`; for each :class:`Turn` it
answers with a :class:`Report`. While it waits for its turn it costs no processor time. End of file
ends it.
"""

from __future__ import annotations

from pydantic import Field

from innet.line_messages import LineMessage


class Hello(LineMessage):
    """A client is there."""

    store: str
    version: str = Field(description="what is measured, such as 'Redis 7.0.15'")


class Turn(LineMessage):
    """Put so many blocks and get them back: one after the other, and then several at once."""

    number: int
    block_bytes: int = Field(ge=1)
    blocks: int = Field(ge=1)
    outstanding: int = Field(ge=1, description="puts or gets at once, where throughput is taken")


class Report(LineMessage):
    """How a turn went."""

    number: int
    put_s: list[float] = Field(default=[], description="of each of the puts in a row")
    get_s: list[float] = Field(default=[], description="of each of the gets in a row")
    put_all_s: float = Field(default=0, description="of all blocks, several at once")
    get_all_s: float = Field(default=0, description="of all blocks, several at once")
    cpu_s: float = Field(default=0, description="processor time of the client's process")
    error: str | None = None
