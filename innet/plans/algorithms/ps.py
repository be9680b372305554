"""Parameter server: one host adds everything. The baseline that shows incast."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from innet.errors import PlanError
from innet.plans.expression import Interval
from innet.plans.plan import Placed, Plan, Rule
from innet.quantities import counted
from innet.topology import Topology


def plan_parameter_server(
    topology: Topology, ranks: tuple[str, ...], *, server: str | None = None
) -> Plan:
    """The sum of all at one node, as the flat expression ``0 + 1 + … + N-1``.

    The node of another host with several workers adds theirs first: one contribution leaves a host.

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
    sums = tuple(_sums_of_hosts(topology, ranks, node))
    summed = {rank: rule for rule in sums for rank in rule.interval.members(len(ranks))}
    operands = (
        Placed(summed[rank].interval, summed[rank].node)
        if rank in summed
        else Placed(Interval.single(rank), host)
        for rank, host in enumerate(ranks)
    )
    why = f"{node} is the parameter server: it requests all contributions and adds them."
    if sums:
        hosts = counted(len({rule.node for rule in sums}), "other host")
        why += f" The contributions of {hosts} are added there first."
    return Plan(
        algorithm="ps",
        ranks=ranks,
        roots=(Placed(everything, node),),
        rules=(*sums, Rule(node, everything, tuple(dict.fromkeys(operands)))),
        why=why,
    )


def _sums_of_hosts(topology: Topology, ranks: tuple[str, ...], server: str) -> Iterator[Rule]:
    """The sums of successive ranks that are workers of one host, apart from the server's."""
    machine_of = topology.machine_of
    for machine, group in groupby(enumerate(ranks), lambda rank: machine_of.get(rank[1])):
        operands = tuple(Placed(Interval.single(rank), node) for rank, node in group)
        if machine and machine != machine_of[server] and 1 < len(operands) < len(ranks):
            interval = Interval(operands[0].interval.first, operands[-1].interval.last)
            yield Rule(machine, interval, operands)
