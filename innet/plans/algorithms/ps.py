"""Parameter server: one host adds everything. The baseline that shows incast."""

from __future__ import annotations

from innet.errors import PlanError
from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.topology import Topology


def plan_parameter_server(
    topology: Topology, ranks: tuple[str, ...], *, server: str | None = None
) -> Plan:
    """All sums at one node, as the flat expression ``0 + 1 + … + N-1``.

    Args:
        ranks: the node of each rank.
        server: the node that adds; the node of rank 0 when not given.

    Raises:
        PlanError: the topology has no such server.
    """
    if server is not None and server not in topology.nodes:
        raise PlanError(
            f"topology {topology.name} has no node {server!r} to be the parameter server; "
            f"name one of its hosts: {', '.join(topology.hosts)}"
        )
    if len(ranks) == 1:
        return Plan("ps", ranks, (Placed(Interval.single(0), ranks[0]),), ())
    node = server or ranks[0]
    everything = Interval.spanning(0, len(ranks), len(ranks))
    operands = tuple(Placed(Interval.single(rank), host) for rank, host in enumerate(ranks))
    return Plan(
        algorithm="ps",
        ranks=ranks,
        roots=(Placed(everything, node),),
        rules=(Rule(node, everything, operands),),
        why=f"{node} is the parameter server: it asks every rank and adds.",
    )
