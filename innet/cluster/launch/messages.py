"""What is said on a session's socket: one JSON document on a line each, see :mod:`.server`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from innet.cluster.emulation.link_counters import DirectedLink, LinkCounters
from innet.worker.job_file import OnDeath

SESSION_SOCKET_NAME = "session.sock"
"""Name of the socket in the run directory."""
MAX_MESSAGE_BYTES = 16 << 20
"""An environment or the counters of a large network fit in; more is refused."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class JobRequest(_Message):
    """Run a command on the hosts. Closing the writing side of the connection cancels the job."""

    kind: Literal["job"] = "job"
    argv: tuple[str, ...] = Field(min_length=1)
    environment: dict[str, str]
    directory: str
    algorithm: str
    hosts: tuple[str, ...] | None
    """Node of each rank; ``None`` for all hosts."""
    job_name: str | None = None
    weight: int = 1
    threads: int | None = None
    """That each rank computes with; ``None``: its share of the processors."""
    max_restarts: int | None = None
    elastic: bool = False
    on_worker_death: OnDeath = "abort"
    serve: bool = False
    trace: str | None = None
    """The file for the job's timeline; ``None`` for none."""


class CountersRequest(_Message):
    """Tell what the kernel has counted on the links."""

    kind: Literal["counters"] = "counters"


class OutputLine(_Message):
    """A line that a worker printed."""

    kind: Literal["line"] = "line"
    label: str
    text: str


class JobEnd(_Message):
    """The job is over; the last message about it."""

    kind: Literal["end"] = "end"
    exit_code: int
    error: str = ""
    lost: tuple[str, ...] = ()
    """How those workers ended that an elastic job went on without."""


class Counters(_Message):
    """Answer to :class:`CountersRequest`; empty in modes without kernel links."""

    kind: Literal["counters"] = "counters"
    links: tuple[tuple[DirectedLink, LinkCounters], ...] = ()


class Refusal(_Message):
    """The request could not be served."""

    kind: Literal["refusal"] = "refusal"
    error: str


Request = JobRequest | CountersRequest
Reply = OutputLine | JobEnd | Counters | Refusal

# A job's environment may have secrets.
request_adapter: TypeAdapter[Request] = TypeAdapter(
    Annotated[Request, Field(discriminator="kind")], config=ConfigDict(hide_input_in_errors=True)
)
reply_adapter: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="kind")])


def encoded(message: BaseModel) -> bytes:
    """The message as a line."""
    return message.model_dump_json().encode() + b"\n"
