"""One problem of a run, and groups of problems with one cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import Field

from innet.quantities import counted
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
        nodes: that it is about, where the subject is no node.
        level: a ``note`` says what happened lately, and is no problem.
        because: the subject of the finding that it follows from; empty: of none.
    """

    check: str
    subject: str
    problem: str
    remedy: str
    cause: str = ""
    severity: float = 0.0
    nodes: tuple[str, ...] = Field(default=(), exclude=True)
    level: Literal["problem", "note"] = "problem"
    because: str = ""


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one cause.

    Attributes:
        worst: the one to show.
        others: the rest, the worst first.
        consequences: findings that follow from them.
    """

    worst: Finding
    others: tuple[Finding, ...] = ()
    consequences: tuple[Finding, ...] = ()

    def more(self) -> list[str]:
        """A line on the others, and one on the consequences of each kind; none without."""
        lines = []
        if self.others:
            lines.append(f"and {len(self.others)} more like it: {_subjects(self.others)}")
        for check in dict.fromkeys(finding.check for finding in self.consequences):
            same = [finding for finding in self.consequences if finding.check == check]
            what = counted(len(same), "finding")
            lines.append(f"which explains {what} of {check}: {_subjects(same)}")
        return lines


def _subjects(findings: Sequence[Finding]) -> str:
    subjects = list(dict.fromkeys(finding.subject for finding in findings))
    more = ", …" if len(subjects) > _SUBJECTS_NAMED else ""
    return f"{', '.join(subjects[:_SUBJECTS_NAMED])}{more}"


def grouped(findings: Sequence[Finding]) -> list[FindingGroup]:
    """Findings grouped by cause, in the order of each group's first finding.

    Those that follow from others are below them.
    """
    by_cause: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if not finding.because:
            by_cause.setdefault((finding.check, finding.cause), []).append(finding)
    return [_group(same, findings) for same in by_cause.values()]


def _group(same: Sequence[Finding], findings: Sequence[Finding]) -> FindingGroup:
    worst, *others = sorted(same, key=lambda f: -f.severity)
    subjects = {finding.subject for finding in same}
    consequences = tuple(f for f in findings if f.because in subjects)
    return FindingGroup(worst, tuple(others), consequences)


class Check(Protocol):
    """Looks for one kind of problem."""

    def findings(self, seen: Observation) -> Iterable[Finding]:
        """The problems of this kind; none in a healthy run."""
        ...
