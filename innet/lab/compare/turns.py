"""Turns: the conversation between a comparison and its workers.

Every worker connects to one Unix socket (which network namespaces do not separate) and says
:class:`Hello`. Then, for each turn, the comparison sends :class:`Prepare` to all workers of one
contender, waits for :class:`Ready` from each, and sends :class:`Go` with a common start time on
the machine's monotonic clock; each answers with :class:`Done`. When all have, it sends
:class:`Check`, upon which they compare what they got and answer with a :class:`Report`: arrays are
made before the start and checked after the end, because on a machine with fewer cores than ranks a
rank that is early would take processor time from those that are still at it. Workers of other
contenders meanwhile block on their socket and cost nothing, so contenders can alternate from one
turn to the next under equal conditions. Messages are lines of JSON. End of file ends a worker.
"""

from __future__ import annotations

from pydantic import Field

from innet.line_messages import LineMessage


class Hello(LineMessage):
    """A worker has joined and can take turns."""

    contender: str
    rank: int
    version: str = Field(description="what is measured, such as 'PyTorch 2.13.0'")


class Prepare(LineMessage):
    """What to do in the next turn."""

    turn: int
    call: str = Field(description="the contender's own name of the algorithm")
    size_bytes: int
    operations: int = Field(
        ge=1,
        description="allreduces back to back; when more than one, the first brings the ranks "
        "together and is not reported",
    )


class Ready(LineMessage):
    """The worker has made its contribution and waits."""

    turn: int


class Go(LineMessage):
    """Begin at this moment of ``time.monotonic()``."""

    start_s: float


class Done(LineMessage):
    """The worker's operations have ended, well or not."""

    turn: int


class Check(LineMessage):
    """Everyone's operations have ended: compare the result."""

    turn: int


class Report(LineMessage):
    """How a turn went on one rank."""

    turn: int
    durations_s: list[float] = Field(description="of each reported operation")
    correct: bool = Field(description="whether every result equalled the sum, element by element")
    cpu_s: float = Field(description="processor time of the process in all operations")
    tcp_retransmissions: int = Field(description="TCP segments sent again in the namespace")
    error: str | None = None
