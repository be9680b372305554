"""What a node answers to ``status``, checked where it is read.

The node of another machine, or a worker, may answer anything. Its answer is used only if it fits.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError

from innet.errors import ControlError
from innet.node.requests import ControlReply
from innet.printable import one_line
from innet.telemetry.messages import (
    MOST_LINKS,
    Amount,
    Count,
    Counters,
    EndpointTable,
    FaceCounters,
    Name,
    NodeTable,
    Place,
    PoolCounters,
    PortTable,
    ReducerTable,
    Text,
)
from innet.validation_messages import at_most, first_message

_MOST_ENTRIES: Final = 1 << 17
"""Of rules, routes or prefixes of one node."""
_LONGEST_REASON: Final = 300

_Uri = Annotated[str, Field(max_length=1 << 14), AfterValidator(one_line)]
_Label = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(one_line)]


class MalformedStatus(ControlError):
    """A node answered something else than a status."""


class _Document(BaseModel):
    model_config = ConfigDict(
        extra="ignore", frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )


class _ManagementTable(Counters):
    table = "management"


class _ForeignFace(Counters):
    """A face of an NDN program, or of another forwarder."""

    table = "links"

    face: Place
    silent: bool
    port: PortTable
    remote_uri: _Uri


class _Operation(_Document):
    number: Count
    missing: Text
    late: Annotated[list[_Label], FailFast(), Field(max_length=1 << 12)]


class _Rule(_Document):
    group: _Uri
    interval: _Uri
    primary: bool
    operands: Annotated[list[tuple[_Uri, _Uri]], FailFast(), Field(max_length=1 << 12)]


class _JobPart(_Document):
    prefix: _Uri
    weight: Count
    slots_in_use: Count
    slots_in_use_max: Count
    slots_guaranteed: Count
    refused_no_slot: Count
    slots_taken_back: Count
    pit_entries: Count
    pit_guaranteed: Count
    pit_refused: Count
    cache_bytes: Count
    cache_guaranteed_bytes: Count


class NodeAnswer(_Document):
    """The status of a node; see ``NodeAgent.status``.

    Counters that the node does not have are 0. What this version does not know is left out.
    """

    node: NodeTable
    kind: Literal["switch", "host"]
    workers: Annotated[list[Name], FailFast(), Field(max_length=1 << 12)]
    pid: Annotated[int, Field(ge=0, le=1 << 22)]
    unheard: Annotated[list[Name], FailFast(), Field(max_length=MOST_LINKS)]
    uptime_s: Amount
    resident_bytes: Count
    cpu_s: Amount
    time_s: Amount
    slots: Count
    pools: Annotated[list[PoolCounters], FailFast(), Field(max_length=256)]
    unannounced: Annotated[dict[_Uri, Text], at_most(_MOST_ENTRIES)]
    reducer: ReducerTable
    endpoint: EndpointTable
    management: _ManagementTable
    links: Annotated[list[FaceCounters], FailFast(), Field(max_length=MOST_LINKS)]
    foreign_faces: Annotated[list[_ForeignFace], FailFast(), Field(max_length=MOST_LINKS)]
    listeners: Annotated[list[_Uri], FailFast(), Field(max_length=256)]
    routes: Annotated[list[tuple[_Uri, Place, Count]], FailFast(), Field(max_length=_MOST_ENTRIES)]
    rules: Annotated[list[_Rule], FailFast(), Field(max_length=_MOST_ENTRIES)]
    jobs: Annotated[list[_JobPart], FailFast(), Field(max_length=1 << 12)]
    operations: Annotated[list[_Operation], FailFast(), Field(max_length=1 << 12)]
    last_unroutable: _Uri
    pool_bytes_in_use: Count
    pool_bytes_reserved: Count


class StatusReply(ControlReply):
    """The reply to ``status``, with its result checked."""

    result: NodeAnswer | None = None


def status_of(document: bytes, node: str) -> dict[str, Any]:
    """The status in a reply of ``node``.

    Raises:
        MalformedStatus: it is something else.
        ControlError: the reply is a refusal.
    """
    try:
        answer = StatusReply.model_validate_json(document).value(node)
    except ValidationError as error:
        why = one_line(first_message(error))[:_LONGEST_REASON]
        raise MalformedStatus(f"{node} sends a malformed status: {why}") from None
    if answer is None:
        raise MalformedStatus(f"{node} sends a malformed status: it is empty")
    status: dict[str, Any] = answer.model_dump()
    return status
