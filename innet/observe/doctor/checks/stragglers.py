"""Ranks that all others wait for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import NodePair, Observation

_LATE = re.compile(r"(operation \d+): ranks? ([\d, ]+) had not sent (?:its|their) data")
_NUMBER = re.compile(r"operation (\d+)")
_WORKING_SHARE = 0.5


class StragglingRank:
    """A rank whose contribution was missing both times, for the same operations."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each late rank."""
        waiting: defaultdict[str, list[str]] = defaultdict(list)
        for node in seen.nodes():
            for operation, rank in _missed_twice(node):
                if not _waits_itself(seen, operation, rank):
                    waiting[rank].append(node.name)
        for rank, nodes in sorted(waiting.items(), key=lambda item: int(item[0])):
            span_s = seen.after.asked_at_s - seen.before.answered_at_s
            yield Finding(
                check="straggling_rank",
                subject=f"rank {rank}",
                problem=f"Rank {rank}{_place(seen, rank)} is late: {', '.join(nodes)} waited for "
                f"what it has to give for more than {max(0.0, span_s):.1f} s." + _doing(seen, rank),
                remedy="If that is its usual pace, give it less work or a faster machine; if it "
                "hangs, `py-spy dump` shows where. Its peers' deadline is collectives.timeout_s.",
                severity=len(nodes),
            )


def _missed_twice(node: NodePair) -> set[tuple[str, str]]:
    before, after = (_missed(answer["operations"]) for answer in (node.before, node.after))
    return before & after


def _waits_itself(seen: Observation, operation: str, rank: str) -> bool:
    """Whether the rank waits in this operation or in one before.

    It has given its part then (who waits behind a switch names those, too), or is held up by
    something else: what it waits for is to blame.
    """
    (late,) = _awaited([operation])
    waiting = {
        node.name
        for node in seen.nodes()
        if any(number <= late for number in _awaited(node.after["operations"]))
    }
    places = _nodes_of(seen, rank)
    return bool(places) and waiting.issuperset(places)


def _awaited(operations: list[str]) -> list[int]:
    """The numbers of the operations that a node waits in."""
    return [int(found[1]) for line in operations if (found := _NUMBER.match(line))]


def _missed(operations: list[str]) -> set[tuple[str, str]]:
    found = (_LATE.match(line) for line in operations)
    return {(m[1], rank.strip()) for m in found if m for rank in m[2].split(",")}


def _nodes_of(seen: Observation, rank: str) -> list[str]:
    """The nodes that have this rank in some group."""
    groups = [group["ranks"] for group in seen.after.status.groups]
    return sorted({ranks[int(rank)] for ranks in groups if int(rank) < len(ranks)})


def _place(seen: Observation, rank: str) -> str:
    nodes = _nodes_of(seen, rank)
    return f" ({' or '.join(nodes)})" if nodes else ""


def _doing(seen: Observation, rank: str) -> str:
    nodes = {node.name: node for node in seen.nodes()}
    match [nodes[name] for name in _nodes_of(seen, rank) if name in nodes]:
        case [node]:
            share = (node.after["cpu_s"] - node.before["cpu_s"]) / node.span_s
            return " It computes meanwhile." if share > _WORKING_SHARE else " It is idle itself."
    return ""
