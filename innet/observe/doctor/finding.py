"""One problem of a run, and groups of problems with one cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from innet.validation_messages import StrictModel

if TYPE_CHECKING:
    from innet.observe.doctor.observation import Observation


_SUBJECTS_NAMED = 4


class Finding(StrictModel):
    """One problem, and its remedy.

    Attributes:
        check: which check found it, such as ``slow_link``.
        subject: the node or link, such as ``s0→h1``.
        problem: a sentence with the measured figures.
        remedy: a sentence with the next step.
        cause: what findings of one kind share; only the worst of them is shown.
        severity: relative to others of the same cause; higher is worse.
    """

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
        """A sentence on the others; empty without others."""
        if not self.others:
            return ""
        subjects = list(dict.fromkeys(finding.subject for finding in self.others))
        named = ", ".join(subjects[:_SUBJECTS_NAMED])
        more = ", …" if len(subjects) > _SUBJECTS_NAMED else ""
        return f"and {len(self.others)} more like it: {named}{more}"


def grouped(findings: Iterable[Finding]) -> list[FindingGroup]:
    """Findings grouped by cause, in the order of each group's first finding."""
    by_cause: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        by_cause.setdefault((finding.check, finding.cause), []).append(finding)
    ordered = (sorted(same, key=lambda f: -f.severity) for same in by_cause.values())
    return [FindingGroup(worst, tuple(others)) for worst, *others in ordered]


class Check(Protocol):
    """Looks for one kind of problem."""

    def findings(self, seen: Observation) -> Iterable[Finding]:
        """The problems of this kind; none in a healthy run."""
        ...
