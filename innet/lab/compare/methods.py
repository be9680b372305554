"""The methods that can be compared, and the time below which none of them can get.

A method is an algorithm of innet, a foreign program over the kernel's links, or, in simulations
alone, an algorithm over TCP (:mod:`innet.lab.simulation.baselines`). ``docs/bounds.md`` derives the
bounds: innet's allreduces have that of their plan, foreign programs that of the bytes that they
send from host to host, and other collectives that of the bytes on each host's own link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from innet.cluster.control.group_plans import named_plan, plan_options
from innet.errors import PlanError
from innet.node.routing import link_ends, next_hops
from innet.plans import ALGORITHMS, Plan, ProcessorCosts, bound_s, rank_order
from innet.plans.bounds import DirectedLink, busiest_link
from innet.plans.completion import completion_bound_s
from innet.suggestions import did_you_mean
from innet.topology import Topology

OWN: Final = "innet"
GLOO: Final = "gloo"
OPENMPI: Final = "openmpi"
OPENMPI_SHARED: Final = "openmpi-shared"

IN_NETWORK: Final = "inc"


@dataclass(frozen=True)
class Method:
    """One way to do an allreduce.

    Attributes:
        name: on command lines and in JSON.
        title: in tables and reports.
        contender: whose workers run it: ``innet``, ``gloo``, ``openmpi`` or ``openmpi-shared``.
        call: the contender's name of the algorithm.
    """

    name: str
    title: str
    contender: str
    call: str


_OWN_TITLES = {
    IN_NETWORK: "in-network aggregation",
    "ring": "ring (innet)",
    "ps": "parameter server (incast)",
    "halving-doubling": "halving-doubling (innet)",
    "auto": "auto",
}

BASELINES = {
    method.name: method
    for method in (
        Method("gloo", "Gloo: ring", GLOO, "ring"),
        Method("gloo-push", "Gloo: gather + broadcast (pushed incast)", GLOO, "push"),
        Method("openmpi", "Open MPI: MPI_Allreduce over TCP", OPENMPI, "allreduce"),
        Method(
            "openmpi-shared",
            "Open MPI: MPI_Allreduce over shared memory",
            OPENMPI_SHARED,
            "allreduce",
        ),
    )
}
"""Foreign methods, by name. They run over the kernel's links in ``netns`` mode, and in ``local``
mode over loopback or, as ``openmpi-shared``, through shared memory."""

TCP_RING: Final = "tcp-ring"
TCP_PS: Final = "tcp-ps"
TCP_TITLES: Final = {TCP_RING: "ring over TCP", TCP_PS: "parameter server over TCP"}
"""Algorithms over simulated TCP, with their titles."""
_TCP_OPTIONS: Final = {TCP_RING: ("congestion",), TCP_PS: ("congestion", "server")}

_INCAST: Final = ("ps", "gloo-push", TCP_PS)


def find_method(name: str) -> Method:
    """The method called ``name``: an algorithm of :data:`innet.plans.ALGORITHMS` or a baseline."""
    if name in BASELINES:
        return BASELINES[name]
    if name in ALGORITHMS:
        return Method(name, _OWN_TITLES.get(name, name), OWN, name)
    known = ", ".join((*ALGORITHMS, *BASELINES))
    raise PlanError(f"nothing called {name!r} can be compared; known are {known}")


def require_simulated(algorithm: str) -> None:
    """Check that ``algorithm`` names one that simulations have."""
    name = _name_of(algorithm)
    if name not in TCP_TITLES and name not in ALGORITHMS:
        raise PlanError(
            f"unknown algorithm {name!r}{did_you_mean(name, (*ALGORITHMS, *TCP_TITLES))}; "
            f"known are {', '.join(ALGORITHMS)}, and over TCP {', '.join(TCP_TITLES)}"
        )


def is_simulated_tcp(algorithm: str) -> bool:
    """Whether an algorithm, with its options, is one over simulated TCP.

    >>> is_simulated_tcp("tcp-ps:server=h3"), is_simulated_tcp("ps")
    (True, False)
    """
    return _name_of(algorithm) in TCP_TITLES


def is_over_tcp(algorithm: str) -> bool:
    """Whether a method sends over TCP, real or simulated: it drops packets to find its rate."""
    return _name_of(algorithm) in BASELINES or is_simulated_tcp(algorithm)


def is_incast(algorithm: str) -> bool:
    """Whether all ranks send to one host."""
    return _name_of(algorithm) in _INCAST


def parse_tcp_algorithm(algorithm: str) -> tuple[str, dict[str, Any]]:
    """Name and options of an algorithm over simulated TCP."""
    name, _, text = algorithm.partition(":")
    options = plan_options(text)
    for option in options:
        if option not in _TCP_OPTIONS[name]:
            known = ", ".join(_TCP_OPTIONS[name])
            raise PlanError(f"{name} has no option {option!r}; it has {known}")
    return name, options


def plan_alike(algorithm: str) -> str:
    """The algorithm of innet that loads the links with the same payload.

    >>> plan_alike("tcp-ps:server=h3,congestion=reno")
    'ps:server=h3'
    """
    name, options = parse_tcp_algorithm(algorithm)
    if name == TCP_RING:
        return "ring"
    return f"ps:server={options['server']}" if "server" in options else "ps"


def _name_of(algorithm: str) -> str:
    return algorithm.partition(":")[0]


# Bounds.

NEAR_BOUND: Final = 1.25
"""Times the bytes' bound up to which the bound with latency is not computed: that takes seconds on
networks of hundreds of hosts, and would explain little."""


class Flow(NamedTuple):
    """Bytes that one host sends to another."""

    source: str
    destination: str
    size_bytes: float


def method_bound_s(
    method: Method, topology: Topology, size_bytes: int, processor: ProcessorCosts | None = None
) -> float | None:
    """Least seconds of an allreduce of ``size_bytes`` per host; ``None``: nothing limits it.

    ``auto`` chooses by the costs of the ``processor``.
    """
    if method.contender == OWN:
        return allreduce_bound_s(topology, topology.hosts, method.call, size_bytes, processor)
    phases = _phases(method, topology, size_bytes)
    return sum(phase_bound_s(topology, phase) for phase in phases) or None


def allreduce_bound_s(
    topology: Topology,
    hosts: Sequence[str],
    algorithm: str,
    size_bytes: int,
    processor: ProcessorCosts | None = None,
) -> float | None:
    """Least seconds of an allreduce of ``size_bytes`` per host; ``None``: nothing limits it."""
    if is_simulated_tcp(algorithm):
        algorithm = plan_alike(algorithm)
    plan = _plan(topology, hosts, algorithm, size_bytes, processor)
    return bound_s(plan, topology, size_bytes) or None


def allreduce_completion_bound_s(
    topology: Topology,
    hosts: Sequence[str],
    algorithm: str,
    size_bytes: int,
    segment_bytes: int,
    processor: ProcessorCosts | None = None,
) -> float | None:
    """The bound including latency; ``None`` for a method over TCP, which follows no plan."""
    if is_over_tcp(algorithm):
        return None
    plan = _plan(topology, hosts, algorithm, size_bytes, processor)
    return completion_bound_s(plan, topology, size_bytes, segment_bytes) or None


def phase_bound_s(topology: Topology, flows: Sequence[Flow]) -> float:
    """Seconds that the busiest link needs for concurrent flows."""
    hops, ends = next_hops(topology), link_ends(topology)
    carried: dict[DirectedLink, float] = defaultdict(float)
    for flow in flows:
        node = flow.source
        while node != flow.destination:
            following = ends[node][hops[node][flow.destination]].peer
            carried[node, following] += flow.size_bytes
            node = following
    return busiest_link(topology, dict(carried)).time_s


def endpoint_bound_s(
    topology: Topology, hosts: Sequence[str], operation: str, size_bytes: int, root: int
) -> float | None:
    """Least seconds of a collective other than allreduce, by the bytes on each host's own link.

    A host must send what it has and others need, and receive what it needs and others have.
    """
    longest_s = 0.0
    for rank, host in enumerate(hosts):
        rates_bps = [link.rate_bps for link in topology.links if host in link.nodes]
        if not rates_bps or None in rates_bps:
            continue
        most_bytes = max(_in_and_out(operation, len(hosts), size_bytes, rank == root))
        longest_s = max(longest_s, most_bytes * 8 / sum(rate for rate in rates_bps if rate))
    return longest_s or None


def overlapped_bound_s(
    computing_s: float, sums: Sequence[tuple[float, float]], overlap: bool
) -> float:
    """Least seconds of a training step that computes for ``computing_s`` and sums gradients.

    Args:
        computing_s: of the slowest rank.
        sums: in their order, when each bucket is ready, and the bound of its sum.
        overlap: each sum begins when its bucket is ready; otherwise when all buckets are.
    """
    done_s = 0.0 if overlap else computing_s
    for ready_s, sum_s in sums:
        done_s = max(done_s, ready_s) + sum_s
    return max(done_s, computing_s)


def _plan(
    topology: Topology,
    hosts: Sequence[str],
    algorithm: str,
    size_bytes: int,
    processor: ProcessorCosts | None,
) -> Plan:
    return named_plan(algorithm, topology, rank_order(topology, hosts), size_bytes, processor)


def _phases(method: Method, topology: Topology, size_bytes: int) -> Iterator[list[Flow]]:
    """The flows of a foreign program; a phase begins when the one before has ended."""
    hosts = topology.hosts
    if method == BASELINES["gloo-push"]:
        yield [Flow(host, hosts[0], size_bytes) for host in hosts[1:]]
        yield list(_binomial_tree(hosts, size_bytes))
    else:
        # Open MPI chooses an algorithm by size; none moves less through a host than a ring does
        # (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
        share_bytes = 2 * size_bytes * (len(hosts) - 1) / len(hosts)
        following = (*hosts[1:], hosts[0])
        yield [Flow(a, b, share_bytes) for a, b in zip(hosts, following, strict=True) if a != b]


def _binomial_tree(hosts: Sequence[str], size_bytes: int) -> Iterator[Flow]:
    """Broadcast from the first host: in each round, every host with the data sends it to one."""
    have = 1
    while have < len(hosts):
        for rank in range(min(have, len(hosts) - have)):
            yield Flow(hosts[rank], hosts[have + rank], size_bytes)
        have *= 2


def _in_and_out(operation: str, ranks: int, size_bytes: int, is_root: bool) -> tuple[float, float]:
    """Bytes that a host must receive, and send."""
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
