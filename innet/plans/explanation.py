"""Why a job is placed as it is: its hosts, its switches, its trees, and who shares its links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from innet.plans.algorithms.auto import PlanChooser, say_time
from innet.plans.algorithms.inc import TreeSearch, able_switches
from innet.plans.bounds import DirectedLink, bytes_per_link
from innet.plans.cost import CostModel
from innet.plans.host_choice import HostChoice
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Plan
from innet.plans.processor_costs import ProcessorCosts
from innet.quantities import counted
from innet.topology import Topology

_MOST_LINKS = 4
"""Shared bottlenecks in a text: mirrored trees have many equal ones."""
_SHARED_BPS = 1e5
"""A job that sends less does not count as a neighbour on a link."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A link that is busy longest with the operation.

    Attributes:
        link: in the direction of the bytes.
        time_s: for its bytes of the operation, at the rate that others leave.
        rate_bps: of the link.
        others_bps: what others use of it.
        jobs: the neighbour jobs that send on it, with bits a second of each.
        in_memory: whether it joins a worker to the memory of its host.
    """

    link: DirectedLink
    time_s: float
    rate_bps: float
    others_bps: float
    jobs: Mapping[str, float]
    in_memory: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a plan is as it is.

    Attributes:
        hosts: of its ranks.
        hosts_why: how they were chosen; ``None``: they were given.
        adders: by node, how many sums it makes.
        trees: for each number of trees, their roots and the estimated time; for ``inc`` alone.
        algorithms: by algorithm that ``auto`` compares, the estimated time.
        bottlenecks: the links that are busy longest.
    """

    hosts: tuple[str, ...]
    hosts_why: str | None
    adders: Mapping[str, int]
    trees: tuple[tuple[tuple[str, ...], float], ...]
    algorithms: Mapping[str, float]
    bottlenecks: tuple[Bottleneck, ...]

    def to_dict(self) -> dict[str, Any]:
        """The explanation in JSON types."""
        return {
            "hosts": list(self.hosts),
            "hosts_why": self.hosts_why,
            "adders": dict(self.adders),
            "trees": [{"roots": list(roots), "time_s": time_s} for roots, time_s in self.trees],
            "algorithms": dict(self.algorithms),
            "bottlenecks": [
                {
                    "from": b.link[0],
                    "to": b.link[1],
                    "time_s": b.time_s,
                    "rate_bps": b.rate_bps,
                    "others_bps": b.others_bps,
                    "jobs": dict(b.jobs),
                }
                for b in self.bottlenecks
            ],
        }

    def sentences(self) -> list[str]:
        """The explanation for a person."""
        return [
            f"Hosts: {', '.join(_ranges(self.hosts))}.",
            *([] if self.hosts_why is None else [f"They are below {self.hosts_why}"]),
            self._say_adders(),
            *self._say_trees(),
            *self._say_algorithms(),
            *self._say_bottlenecks(),
        ]

    def _say_adders(self) -> str:
        if not self.adders:
            return "Nothing is added: one rank needs no sum."
        makers = ", ".join(f"{node} ({counted(n, 'sum')})" for node, n in self.adders.items())
        return f"Sums are made on {makers}."

    def _say_trees(self) -> list[str]:
        said = [
            f"{counted(len(roots), 'tree')} (root{'s' if len(roots) > 1 else ''} "
            f"{', '.join(roots)}) would take {say_time(time_s)}"
            for roots, time_s in self.trees
        ]
        what = "Trees with the same sums, of which each adds an equal part of the segments"
        return [f"{what}: {'; '.join(said)}."] if said else []

    def _say_algorithms(self) -> list[str]:
        said = [f"{name} {say_time(time_s)}" for name, time_s in self.algorithms.items()]
        return [f"Estimates of the algorithms: {'; '.join(said)}."] if said else []

    def _say_bottlenecks(self) -> list[str]:
        if not self.bottlenecks:
            return ["No link has a rate, so none is a bottleneck."]
        used = [bottleneck for bottleneck in self.bottlenecks if bottleneck.others_bps]
        said = [_say_bottleneck(bottleneck) for bottleneck in used[:_MOST_LINKS]]
        alone = [" to ".join(b.link) for b in self.bottlenecks if not b.others_bps]
        if alone:
            others = f" and {counted(len(alone) - 1, 'other link')}" if len(alone) > 1 else ""
            busy_s = self.bottlenecks[0].time_s
            verb, them = ("are", "them") if others else ("is", "it")
            said.append(
                f"Bottleneck: {alone[0]}{others} {verb} busy for {say_time(busy_s)}; nobody else "
                f"uses {them}."
            )
        if any(bottleneck.in_memory for bottleneck in self.bottlenecks):
            said.append("It is within hosts: between workers and their host's memory.")
        return said


def explain(
    plan: Plan,
    topology: Topology,
    size_bytes: int,
    *,
    load: Load = NO_LOAD,
    jobs: Mapping[str, Mapping[DirectedLink, float]] | None = None,
    hosts: HostChoice | None = None,
    processor: ProcessorCosts | None = None,
) -> Explanation:
    """Explain a plan for an allreduce of ``size_bytes`` per rank.

    Args:
        plan: of the job.
        topology: of the network.
        size_bytes: bytes of one rank's tensor.
        load: what others use of the network.
        jobs: by neighbour job, what it sends on each link, in bits a second.
        hosts: how the hosts were chosen, if they were.
        processor: as ``auto`` takes it.
    """
    model = CostModel(topology, processor, load)
    choices = []
    if plan.algorithm == "inc" and plan.size > 1:
        search = TreeSearch(model, plan.ranks, able_switches(topology, load), like=plan)
        choices = search.choices(model, size_bytes, each=True)
    chooser = PlanChooser(topology, plan.ranks, processor=processor, load=load)
    return Explanation(
        hosts=plan.ranks,
        hosts_why=None if hosts is None else hosts.why,
        adders=Counter(rule.node for rule in plan.rules),
        trees=tuple((choice.roots, choice.cost.total_s) for choice in choices),
        algorithms={n: cost.total_s for n, cost in chooser.costs(size_bytes).items()},
        bottlenecks=_bottlenecks(plan, topology, size_bytes, load, jobs or {}),
    )


def _bottlenecks(
    plan: Plan,
    topology: Topology,
    size_bytes: int,
    load: Load,
    jobs: Mapping[str, Mapping[DirectedLink, float]],
) -> tuple[Bottleneck, ...]:
    found = []
    for link, carried_bytes in bytes_per_link(plan, topology, size_bytes).items():
        joined, left_bps = topology.link_between(*link), load.rate_bps(topology, *link)
        rate_bps = joined.rate_bps
        if rate_bps is None or left_bps is None:
            continue
        sharing = {job: of[link] for job, of in jobs.items() if of.get(link, 0.0) > _SHARED_BPS}
        time_s = carried_bytes * 8 / left_bps
        others_bps = load.used_bps(*link)
        found.append(Bottleneck(link, time_s, rate_bps, others_bps, sharing, joined.in_memory))
    longest_s = max((bottleneck.time_s for bottleneck in found), default=0.0)
    longest = [b for b in found if b.time_s >= longest_s * (1 - 1e-6)]
    return tuple(sorted(longest, key=lambda b: -b.others_bps))


def _ranges(hosts: Sequence[str]) -> list[str]:
    """Hosts as ``--hosts`` takes them, with runs of more than two as ranges.

    >>> _ranges(("h0.0", "h0.1", "h0.2", "h1.0", "h7"))
    ['h0.0-h0.2', 'h1.0', 'h7']
    """
    runs: list[list[str]] = []
    for host in hosts:
        if runs and host == _next(runs[-1][-1]):
            runs[-1].append(host)
        else:
            runs.append([host])
    return [part for run in runs for part in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else run)]


def _next(host: str) -> str | None:
    """The host that counts on; ``None`` after one without a number."""
    stem = host.rstrip("0123456789")
    return None if stem == host else f"{stem}{int(host[len(stem) :]) + 1}"


def _say_bottleneck(bottleneck: Bottleneck) -> str:
    source, to = bottleneck.link
    text = f"Bottleneck: {source} to {to}, busy for {say_time(bottleneck.time_s)}"
    share = bottleneck.others_bps / bottleneck.rate_bps
    jobs = ", ".join(f"job {job} {bps / 1e6:.3g} Mbit/s" for job, bps in bottleneck.jobs.items())
    return f"{text}; others use {share:.0%} of it" + (f": {jobs}." if jobs else ".")
