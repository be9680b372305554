"""Checks of nodes that answer: starved, late, without slots, or with a wrong clock."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from innet.node.messages import producer_label
from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import NodePair, Observation

_WAITING_SHARE = 0.3
"""Share of the time between the looks that a thread was ready but did not run."""


def starved_nodes(seen: Observation) -> dict[str, tuple[NodePair, float, float]]:
    """The nodes whose threads waited for a processor longer than they had one.

    Each with its answers, and the seconds that its threads waited and ran.
    """
    found = {}
    for node in seen.nodes():
        before = seen.before.status.processes.get(node.name)
        after = seen.after.status.processes.get(node.name)
        if before is None or after is None:
            continue
        waited_s, ran_s = after.waited_s - before.waited_s, after.ran_s - before.ran_s
        if waited_s > _WAITING_SHARE * node.span_s and waited_s > ran_s:
            found[node.name] = (node, waited_s, ran_s)
    return found


class StarvedNode:
    """A node whose threads wait for a processor longer than they have one."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each node."""
        for name, (node, waited_s, ran_s) in starved_nodes(seen).items():
            yield Finding(
                check="starved_node",
                subject=name,
                problem=f"{name} is starved of processor: within {node.span_s:.1f} s its threads "
                f"ran for {ran_s:.2f} s and waited for a processor for {waited_s:.2f} s.",
                remedy="Too many processes share this machine's processors: end others, set "
                "fewer threads for the training (OMP_NUM_THREADS), emulate a smaller or slower "
                "network (--rate), or take a machine with more cores.",
                severity=waited_s / node.span_s,
            )


class NoFreeSlot:
    """A switch that refused reductions, so that the requesters had to compute them."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such switch."""
        for node in seen.nodes():
            refused = node.grown("reducer", "refused_no_slot")
            if node.after["kind"] == "switch" and refused:
                yield Finding(
                    check="no_free_slot",
                    subject=node.name,
                    problem=f"Switch {node.name} has no free slot: within {node.span_s:.1f} s it "
                    f"refused {refused} reductions and took {_taken(node)}, with "
                    f"{node.after['slots']} slots. The requesters compute them, over "
                    "links that the switch would have spared.",
                    remedy=f"About {_enough(node)} slots would do (`slots` of the switch in the "
                    "topology, or --slots); else let fewer operations or jobs run at once "
                    "(collectives.operations_in_flight).",
                    severity=refused,
                )


def _taken(node: NodePair) -> int:
    return node.grown("reducer", "reductions_started")


def _enough(node: NodePair) -> int:
    """Slots for all requests, by Little's law.

    The accepted requests used all slots, so all requests would have used proportionally more. The
    next power of two leaves some room.
    """
    slots = int(node.after["slots"])
    refused = node.grown("reducer", "refused_no_slot")
    requested = _taken(node) + refused
    taken = max(1, _taken(node))
    return 1 << math.ceil(math.log2(max(2, slots * requested / taken)))


_TOLERANCE_S = 0.25
_REMEDY = (
    "Let a time service keep it (timedatectl set-ntp true). Collectives do not need it, but signed "
    "commands are refused as stale, and times in events, logs and timelines do not compare."
)


class WrongClock:
    """A node whose clock differs from this one, or jumped between the looks."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each node."""
        for node in seen.nodes():
            jump_s = _grown_s(node) - node.span_s
            ahead_s = _ahead_s(seen, node)
            if abs(jump_s) > _TOLERANCE_S:
                problem = (
                    f"The clock of {node.name} jumped by {jump_s:+.2f} s within "
                    f"{node.span_s:.1f} s: another program sets it."
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
    """At least by how much: the node read its clock between the request and the answer."""
    look = seen.after
    time_s = float(node.after["time_s"])
    return max(0.0, time_s - look.answered_at_s) + min(0.0, time_s - look.asked_at_s)


_WORKING_SHARE = 0.5


@dataclass(frozen=True)
class _Producer:
    """A rank of one or several groups, and the nodes that may have it."""

    name: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LateRank:
    """A rank whose contribution to the same operations was missing at both looks.

    Attributes:
        name: such as ``rank 3``.
        nodes: those that may have it.
        waiting: the nodes that wait for it.
    """

    name: str
    nodes: tuple[str, ...]
    waiting: tuple[str, ...]


def late_ranks(seen: Observation) -> list[LateRank]:
    """The ranks that others waited for at both looks, in the order of their numbers."""
    producers = _producers(seen)
    waiting: defaultdict[_Producer, list[str]] = defaultdict(list)
    for node in seen.nodes():
        late = {
            producers.get(label, _Producer(label))
            for number, label in _missed(node.before) & _missed(node.after)
            if not _waits_itself(seen, number, producers.get(label))
        }
        for producer in late:
            waiting[producer].append(node.name)
    return [
        LateRank(producer.name, producer.nodes, tuple(nodes))
        for producer, nodes in sorted(waiting.items(), key=_by_number)
    ]


class StragglingRank:
    """A rank that others waited for at both looks."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each late rank."""
        span_s = max(0.0, seen.after.asked_at_s - seen.before.answered_at_s)
        for late in late_ranks(seen):
            place = f" ({' or '.join(late.nodes)})" if late.nodes else ""
            rank = late.name[0].upper() + late.name[1:]
            yield Finding(
                check="straggling_rank",
                subject=late.name,
                problem=f"{rank}{place} is late: {', '.join(late.waiting)} waited for its data for "
                f"more than {span_s:.1f} s." + _doing(seen, late),
                remedy="If that is its usual pace, give it less work or a faster machine; if it "
                "hangs, `py-spy dump` shows where. Its peers' deadline is collectives.timeout_s.",
                severity=len(late.waiting),
                nodes=late.nodes,
            )


def _producers(seen: Observation) -> dict[str, _Producer]:
    """The ranks of all groups, by the label that their Holds have.

    Only a label that is too short for the node's name stands for that rank of every group.
    """
    nodes: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for group in seen.after.status.groups:
        for rank, node in enumerate(group["ranks"]):
            nodes[producer_label(rank, node), rank].add(node)
    return {
        label: _Producer(f"rank {rank}", tuple(sorted(places)))
        for (label, rank), places in nodes.items()
    }


def _by_number(item: tuple[_Producer, list[str]]) -> tuple[int, str]:
    """Ranks in the order of their numbers: shorter names first."""
    return len(item[0].name), item[0].name


def _missed(answer: Mapping[str, Any]) -> set[tuple[int, str]]:
    """The operations that a node waits in, each with the label of a late producer."""
    return {
        (operation["number"], label)
        for operation in answer["operations"]
        for label in operation["late"]
    }


def _waits_itself(seen: Observation, number: int, producer: _Producer | None) -> bool:
    """Whether the rank itself waits in this operation or an earlier one.

    Then it has contributed already (requesters behind a switch name such ranks, too), or another
    cause delays it.
    """
    waiting = {
        node.name
        for node in seen.nodes()
        if any(operation["number"] <= number for operation in node.after["operations"])
    }
    return producer is not None and waiting.issuperset(producer.nodes)


def _doing(seen: Observation, late: LateRank) -> str:
    match [node for node in seen.nodes() if node.name in late.nodes]:
        case [node]:
            share = (node.after["cpu_s"] - node.before["cpu_s"]) / node.span_s
            return " It computes meanwhile." if share > _WORKING_SHARE else " It is idle itself."
    return ""
