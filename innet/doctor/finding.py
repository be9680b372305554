"""One thing that is wrong with a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from innet.doctor.observation import Observation


class Finding(BaseModel):
    """What is wrong, and what to do.

    Attributes:
        check: which check found it, such as ``slow_link``.
        subject: the node or link that it is about, such as ``s0→h1``.
        problem: a sentence with the figures that were seen.
        remedy: a sentence on what would help.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: str
    subject: str
    problem: str
    remedy: str


class Check(Protocol):
    """Looks for one kind of problem."""

    def findings(self, seen: Observation) -> Iterable[Finding]:
        """All that is wrong in this respect; nothing when all is well."""
        ...
