"""Clocks that are wrong, or were set."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import NodePair, Observation

_TOLERANCE_S = 0.25
_REMEDY = (
    "Let a time service keep it (timedatectl set-ntp true). Collectives do not need it, but signed "
    "commands are refused as stale, and times in events, logs and timelines do not compare."
)


class WrongClock:
    """A node whose clock differs from ours, or jumped between the looks."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each node."""
        for node in seen.nodes():
            jump_s = _grown_s(node) - node.span_s
            ahead_s = _ahead_s(seen, node)
            if abs(jump_s) > _TOLERANCE_S:
                problem = (
                    f"The clock of {node.name} jumped by {jump_s:+.2f} s within "
                    f"{node.span_s:.1f} s: somebody sets it."
                )
            elif abs(ahead_s) > _TOLERANCE_S:
                problem = (
                    f"The clock of {node.name} is {abs(ahead_s):.2f} s "
                    f"{'ahead of' if ahead_s > 0 else 'behind'} this one."
                )
            else:
                continue
            yield Finding(check="wrong_clock", subject=node.name, problem=problem, remedy=_REMEDY)


def _grown_s(node: NodePair) -> float:
    return float(node.after["time_s"] - node.before["time_s"])


def _ahead_s(seen: Observation, node: NodePair) -> float:
    """By how much at least: the node read its clock at some moment between question and answer."""
    look = seen.after
    time_s = float(node.after["time_s"])
    return max(0.0, time_s - look.answered_at_s) + min(0.0, time_s - look.asked_at_s)
