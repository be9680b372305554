"""What the launcher of a replay and its workers say to each other: lines of JSON.

Each worker finds its :class:`Part` in a file, connects to the launcher's Unix socket and says
:class:`Ready` once all members of the pool are there. All get the same :class:`Go`; each says
:class:`Served` for each request, and :class:`Done` after its last one. It stays, a home to others,
until the launcher hangs up.
"""

from __future__ import annotations

from innet.lab.replay.plan import ReplayPlan
from innet.lab.replay.statistics import ReplayStatistics
from innet.line_messages import LineMessage


class WrittenRequest(LineMessage):
    """A request of the trace: see :class:`innet.lab.traces.Request`."""

    number: int
    arrival_s: float
    input_tokens: int
    output_tokens: int
    blocks: list[str]
    """Hexadecimal."""


class Part(LineMessage):
    """What one worker is to do."""

    plan: ReplayPlan
    job: str
    socket: str
    warm_up: int
    """Requests with smaller numbers are not timed."""
    requests: list[WrittenRequest]


class Ready(LineMessage):
    """A worker is in the pool, and so are all homes."""

    host: str


class Go(LineMessage):
    """The trace begins at this moment of ``time.monotonic()``."""

    start_s: float


class Served(LineMessage):
    """A request has come to its first token."""

    number: int
    begun_s: float
    """Of ``time.monotonic()``."""
    ended_s: float


class Done(LineMessage):
    """A worker has served all its requests, and brought away what it computed."""

    statistics: ReplayStatistics
    """Of the timed requests."""
    served: int
    """How often it was asked for blocks that it has as their home, up to now."""
