"""The requests that processes of nodes send to the controller, each checked against a model.

The controller has a socket for its own machine, and one for each other machine. On the latter,
these are all the requests there are, and the node that one speaks for is on that machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import FailFast, Field, ValidationError

from innet.errors import ControlError
from innet.node.messages import (
    Count,
    NodeText,
    PoolReport,
    Reason,
    SealingKey,
    ServedPrefixes,
    TenantComponent,
)
from innet.node.requests import ControlRequest
from innet.validation_messages import StrictModel, first_message

_MAX_RANKS: Final = 1 << 16
_MAX_GROUPS: Final = 1 << 13
"""More than a job may have, and those that its members have left."""
_MAX_PID: Final = 1 << 22
"""Of Linux: ``PID_MAX_LIMIT``."""

_GroupName = Annotated[str, Field(min_length=1, max_length=256)]
_Rank = Annotated[int, Field(ge=0, lt=_MAX_RANKS)]


_Cause = tuple[_GroupName, Count, Reason, _Rank | None]


class _OfNode(StrictModel):
    """A request of the process on ``node``."""

    node: NodeText


class _OfIncarnation(_OfNode):
    incarnation: Count


class _Attach(_OfNode):
    pid: int = Field(gt=0, le=_MAX_PID)
    sealing_key: SealingKey | None = None
    is_attached: bool = False


class _Announce(_OfIncarnation, ServedPrefixes):
    pass


class _OpenPool(_OfIncarnation, PoolReport):
    pass


class _OfPool(_OfIncarnation):
    tenant: TenantComponent


class _JoinGroup(_OfNode):
    group: _GroupName
    algorithm: str = Field(max_length=4096)
    ranks: Annotated[tuple[NodeText, ...], FailFast(), Field(max_length=_MAX_RANKS)]


class _OfGroup(_OfNode):
    group: _GroupName
    number: Count


class _LeaveGroups(_OfNode):
    groups: Annotated[
        tuple[tuple[_GroupName, Count], ...], FailFast(), Field(max_length=_MAX_GROUPS)
    ]


class _ShrinkGroup(_OfGroup):
    heard: tuple[Reason, _Rank | None] | None = None


class _Expel(_OfNode):
    other: NodeText
    why: Reason


class _Fail(_OfIncarnation):
    why: Reason
    causes: Annotated[tuple[_Cause, ...], FailFast(), Field(max_length=4096)] = ()


class _Question(StrictModel):
    """A request that changes nothing, and that every machine may send."""


class _TenantQuestion(_Question):
    tenant: TenantComponent


WORKER_REQUESTS: Final[Mapping[str, type[StrictModel]]] = {
    "attach": _Attach,
    "detach": _OfIncarnation,
    "announce": _Announce,
    "routes": _OfNode,
    "join_group": _JoinGroup,
    "ready_group": _OfGroup,
    "leave_groups": _LeaveGroups,
    "group_failure": _OfGroup,
    "shrink_group": _ShrinkGroup,
    "expel": _Expel,
    "fail": _Fail,
    "open_pool": _OpenPool,
    "leave_pool": _OfPool,
    "empty_pool_caches": _OfPool,
    "pool_members": _TenantQuestion,
    **dict.fromkeys(
        ("present", "gone", "stopped", "pools", "groups", "plans", "jobs", "overview", "load"),
        _Question,
    ),
    "ping": _Question,
}
"""The parameters of each request."""


def checked_request(request: ControlRequest) -> ControlRequest:
    """A request with its parameters as its model has them; one of the launcher's own as it is.

    Raises:
        ControlError: a parameter is missing, unknown or out of bounds.
    """
    model = WORKER_REQUESTS.get(request.method)
    if model is None:
        return request
    try:
        params = model.model_validate(request.params).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise ControlError(f"invalid {request.method!r}: {first_message(error)}") from None
    return ControlRequest(method=request.method, params=params)


def request_of_machine(
    request: ControlRequest, machine: str, nodes: Collection[str]
) -> ControlRequest:
    """A request from another machine, with these nodes, if it may send it.

    Raises:
        ControlError: it is not for other machines, the node is on another one, or a parameter is
            missing, unknown or out of bounds.
    """
    if request.method not in WORKER_REQUESTS:
        raise ControlError(
            f"unknown method {request.method!r} for machine {machine}; known there: "
            f"{', '.join(sorted(WORKER_REQUESTS))}"
        )
    checked = checked_request(request)
    node = checked.params.get("node")
    if node is not None and node not in nodes:
        raise ControlError(f"{node} is not on machine {machine}, which cannot speak for it")
    return checked
