"""Checks of routes: missing ones, and prefixes that other nodes do not know."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import NodePair, Observation
from innet.quantities import counted
from innet.topology.routes import Routes


class MissingRoute:
    """A node without a route to another, or that refused Interests as NoRoute meanwhile."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each node that cannot reach some others, or some names."""
        routes = Routes(seen.topology)
        states = seen.after.status.state.nodes
        gone = {n for n, node in states.items() if node.state in ("lost", "restarting", "starting")}
        live = [n for n in seen.topology.nodes if n not in gone]
        for node in seen.nodes():
            # A route that is missing at one moment may be on its way.
            answers = (node.before, node.after)
            known = {prefix for answer in answers for prefix, _face, _cost in answer["routes"]}
            others = [n for n in live if n != node.name and routes.reaches(node.name, n)]
            unknown = [n for n in others if f"/n/{n}" not in known]
            refused = node.grown("node", "no_route")
            if unknown:
                yield self._finding(
                    node.name,
                    f"{node.name} has no route to {', '.join(unknown)}{_refusals(node)}.",
                    cause="nodes",
                    severity=len(unknown),
                )
            elif refused:
                yield self._finding(
                    node.name,
                    f"{node.name} refused {refused} Interests within {node.span_s:.1f} s: it has "
                    f"no route to {node.after['last_unroutable']}.",
                    cause="names",
                    severity=refused,
                )

    @staticmethod
    def _finding(node: str, problem: str, *, cause: str, severity: float) -> Finding:
        return Finding(
            check="missing_route",
            subject=node,
            problem=problem,
            remedy=f"`innet status --node {node}` shows its routes. Routes follow the topology and "
            "the switches that live; a name outside of the run's needs a route of its own.",
            cause=cause,
            severity=severity,
        )


def _refusals(node: NodePair) -> str:
    count = int(node.after["node"]["no_route"])
    return f"; it has refused {counted(count, 'Interest')} for want of one" if count else ""


class UnannouncedPrefix:
    """A prefix that a program has registered and that is not announced to the other nodes."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such prefix of each node."""
        for node in seen.nodes():
            for prefix, why in node.after.get("unannounced", {}).items():
                yield Finding(
                    check="unannounced_prefix",
                    subject=node.name,
                    problem=f"A program at {node.name} serves {prefix}, and only programs there "
                    f"find it: {why}.",
                    remedy="Let it register another prefix, which everybody finds, or ask for the "
                    "name at that node.",
                )
