"""What a worker is a member of: it tells a controller that was started again."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from innet.security.key import Key


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class GroupReport(_Part):
    """A worker's place in a group.

    Attributes:
        name, number, algorithm, ranks: as the controller gave them.
        plans: by name prefix, as made for the whole network.
        ready: the worker answers for its names.
        left: it needs nothing more of the group.
        failure: what it was told of the group's end.
    """

    name: str
    number: int
    algorithm: str
    ranks: tuple[str, ...]
    plans: dict[str, dict[str, Any]]
    ready: bool
    left: bool
    failure: tuple[str, int | None] | None


class PoolReport(_Part):
    """A worker's part in a pool of blocks.

    Attributes:
        tenant: whose blocks they are: the component that stands for it in names.
        key: that verifies them.
        capacity_bytes: of memory that the worker offers to others; 0: none.
        weight: the pool's part of the switches' memory, beside other pools' and jobs' weights.
    """

    tenant: str = Field(pattern="^[0-9a-f]{2,128}$")
    key: Key
    capacity_bytes: int = Field(ge=0)
    weight: int


class WorkerReport(_Part):
    """A worker, and the groups and pools that it is in.

    Attributes:
        node: its host.
        pid: its process.
        incarnation: as the controller gave it.
        failed: why it can go on no longer, if it cannot.
        sealing_key: what is sealed to it, hexadecimal.
        groups: with those that it has left while others have not.
        pools: that it is a member of.
    """

    node: str
    pid: int
    incarnation: int
    failed: str | None
    sealing_key: str | None = None
    groups: list[GroupReport]
    pools: list[PoolReport] = []
