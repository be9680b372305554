"""What an operation takes at least, by the bytes that its links must carry.

An allreduce is bounded by its plan, as everywhere (``docs/bounds.md``). Of the other collectives
only what must pass through a host's own link counts, whatever the algorithm: what the host has that
others need, and what it needs that others have.
"""

from __future__ import annotations

from collections.abc import Sequence

from innet.cluster.control.group_plans import named_plan
from innet.lab.simulation.baselines import is_baseline, plan_alike
from innet.plans import bound_s, rank_order
from innet.plans.completion import completion_bound_s
from innet.topology import Topology


def allreduce_bound_s(
    topology: Topology, hosts: Sequence[str], algorithm: str, size_bytes: int
) -> float | None:
    """Least seconds of an allreduce of ``size_bytes`` per host; ``None`` where no rate limits it.

    Raises:
        PlanError: the algorithm is unknown or has no plan here.
    """
    if is_baseline(algorithm):
        algorithm = plan_alike(algorithm)
    plan = named_plan(algorithm, topology, rank_order(topology, tuple(hosts)), size_bytes)
    return bound_s(plan, topology, size_bytes) or None


def allreduce_completion_bound_s(
    topology: Topology, hosts: Sequence[str], algorithm: str, size_bytes: int, segment_bytes: int
) -> float | None:
    """The same with latency; ``None`` of a baseline, whose messages are not those of a plan."""
    if is_baseline(algorithm):
        return None
    plan = named_plan(algorithm, topology, rank_order(topology, tuple(hosts)), size_bytes)
    return completion_bound_s(plan, topology, size_bytes, segment_bytes) or None


def endpoint_bound_s(
    topology: Topology, hosts: Sequence[str], operation: str, size_bytes: int, root: int
) -> float | None:
    """Least seconds of any other collective with contributions of ``size_bytes``."""
    longest_s = 0.0
    for rank, host in enumerate(hosts):
        rates_bps = [link.rate_bps for link in topology.links if host in link.nodes]
        if not rates_bps or None in rates_bps:
            continue
        most_bytes = max(_in_and_out(operation, len(hosts), size_bytes, rank == root))
        longest_s = max(longest_s, most_bytes * 8 / sum(rate for rate in rates_bps if rate))
    return longest_s or None


def _in_and_out(operation: str, ranks: int, size_bytes: int, is_root: bool) -> tuple[float, float]:
    """Bytes that must come into a host, and leave it."""
    if ranks == 1:
        return 0.0, 0.0
    others = size_bytes * (ranks - 1)
    shares = others / ranks
    at_root: dict[str, tuple[float, float]] = {
        "reduce": (size_bytes, 0.0),
        "gather": (others, 0.0),
        "broadcast": (0.0, size_bytes),
        "scatter": (0.0, shares),
    }
    elsewhere: dict[str, tuple[float, float]] = {
        "reduce": (0.0, size_bytes),
        "gather": (0.0, size_bytes),
        "broadcast": (size_bytes, 0.0),
        "scatter": (size_bytes / ranks, 0.0),
    }
    everywhere: dict[str, tuple[float, float]] = {
        "reduce-scatter": (size_bytes / ranks, shares),
        "allgather": (others, size_bytes),
        "alltoall": (shares, shares),
        "barrier": (0.0, 0.0),
    }
    return everywhere.get(operation) or (at_root if is_root else elsewhere)[operation]


def overlapped_bound_s(
    computing_s: float, sums: Sequence[tuple[float, float]], overlap: bool
) -> float:
    """Least seconds of a step that computes for ``computing_s`` and sums meanwhile.

    Args:
        computing_s: of the slowest rank.
        sums: when each bucket is ready there, and what its sum takes at least; in their order.
        overlap: sums begin when their bucket is ready; otherwise when all are.
    """
    done_s = 0.0 if overlap else computing_s
    for ready_s, sum_s in sums:
        done_s = max(done_s, ready_s) + sum_s
    return max(done_s, computing_s)
