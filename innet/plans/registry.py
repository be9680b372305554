"""The algorithms by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from innet.errors import PlanError
from innet.plans.algorithms.auto import plan_automatically
from innet.plans.algorithms.halving_doubling import plan_halving_doubling
from innet.plans.algorithms.inc import plan_in_network
from innet.plans.algorithms.ps import plan_parameter_server
from innet.plans.algorithms.ring import plan_ring
from innet.plans.plan import Plan
from innet.suggestions import did_you_mean
from innet.topology import Topology

ALGORITHMS: dict[str, Callable[..., Plan]] = {
    "inc": plan_in_network,
    "ps": plan_parameter_server,
    "ring": plan_ring,
    "halving-doubling": plan_halving_doubling,
    "auto": plan_automatically,
}
"""Makers of plans, by the name that users type."""


def make_plan(
    algorithm: str, topology: Topology, ranks: Sequence[str] | None = None, **options: Any
) -> Plan:
    """Make a plan.

    Args:
        algorithm: a key of :data:`ALGORITHMS`.
        topology: where the group runs.
        ranks: the node of each rank; all hosts of the topology, in its order, when not given.
        options: of the algorithm (``server`` for ``ps``; ``roots`` and ``place`` for ``inc``;
            ``size_bytes`` and ``processor`` for ``auto``).

    Raises:
        PlanError: unknown algorithm, option or node, or no such plan exists here.

    >>> make_plan("ring", topology).root_for(3).node                     # doctest: +SKIP
    'h3'
    """
    if algorithm not in ALGORITHMS:
        hint = did_you_mean(algorithm, ALGORITHMS) or f"; known are {', '.join(ALGORITHMS)}"
        raise PlanError(f"unknown algorithm {algorithm!r}{hint}")
    maker = ALGORITHMS[algorithm]
    _check_options(algorithm, maker, options)
    plan = maker(topology, _check_ranks(topology, ranks), **options)
    plan.validate()
    return plan


def _check_options(algorithm: str, maker: Callable[..., Plan], options: dict[str, Any]) -> None:
    parameters = inspect.signature(maker).parameters.values()
    known = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise PlanError(f"{algorithm} has no option {name!r}{hint}")


def _check_ranks(topology: Topology, ranks: Sequence[str] | None) -> tuple[str, ...]:
    nodes = tuple(topology.hosts if ranks is None else ranks)
    if not nodes:
        raise PlanError(
            f"a group on topology {topology.name} needs at least one rank; add a host or name ranks"
        )
    for rank, node in enumerate(nodes):
        if node not in topology.hosts:
            known = f"; its hosts are {', '.join(topology.hosts)}"
            raise PlanError(
                f"rank {rank} is placed on {node!r}, which is not a host of topology "
                f"{topology.name}{did_you_mean(node, topology.hosts) or known}"
            )
        if node in nodes[:rank]:
            raise PlanError(
                f"ranks {nodes.index(node)} and {rank} are both placed on {node}; "
                "place each rank on a host of its own"
            )
    return nodes
