"""The keys that all kinds of jobs have."""

from __future__ import annotations

from pydantic import Field

from innet.topology.event_document import Duration, PositiveDuration
from innet.topology.specification import Specification, optional


class JobFields(Specification):
    """Where and when a job runs, and how its groups communicate."""

    hosts: list[str] = optional("where its ranks are, in their order; by default all hosts")
    algorithm: str = optional(
        "of its group, such as inc or tcp-ring; by default the one being compared"
    )
    start: Duration = Field(default=0.0, description="virtual time at which it begins")
    timeout: PositiveDuration = optional(
        "deadline of each operation; by default 15 times its bound above the setting "
        "collectives.timeout_s"
    )
