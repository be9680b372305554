"""One thing that is wrong with a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from innet.observe.doctor.observation import Observation


_SUBJECTS_NAMED = 4


class Finding(BaseModel):
    """What is wrong, and what to do.

    Attributes:
        check: which check found it, such as ``slow_link``.
        subject: the node or link that it is about, such as ``s0→h1``.
        problem: a sentence with the figures that were seen.
        remedy: a sentence on what would help.
        cause: what findings of one kind share; one of them stands for all where there are many.
        severity: how bad it is beside others of the same cause; more is worse.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: str
    subject: str
    problem: str
    remedy: str
    cause: str = ""
    severity: float = 0.0


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one cause.

    Attributes:
        worst: the one to show.
        others: the rest, the worst first.
    """

    worst: Finding
    others: tuple[Finding, ...] = ()

    def more_like_it(self) -> str:
        """A sentence on the others; nothing where there are none."""
        if not self.others:
            return ""
        subjects = list(dict.fromkeys(finding.subject for finding in self.others))
        named = ", ".join(subjects[:_SUBJECTS_NAMED])
        more = ", …" if len(subjects) > _SUBJECTS_NAMED else ""
        return f"and {len(self.others)} more like it: {named}{more}"


def grouped(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Findings by cause, in the order of their first one, and the worst of each."""
    by_cause: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        by_cause.setdefault((finding.check, finding.cause), []).append(finding)
    ordered = (sorted(same, key=lambda f: -f.severity) for same in by_cause.values())
    return [FindingGroup(worst, tuple(others)) for worst, *others in ordered]


class Check(Protocol):
    """Looks for one kind of problem."""

    def findings(self, seen: Observation) -> Iterable[Finding]:
        """All that is wrong in this respect; nothing when all is well."""
        ...
