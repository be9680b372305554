"""Choosing an algorithm by topology and size, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from innet.plans.algorithms.halving_doubling import plan_halving_doubling
from innet.plans.algorithms.inc import plan_in_network
from innet.plans.algorithms.ps import plan_parameter_server
from innet.plans.algorithms.ring import plan_ring
from innet.plans.cost import CostModel, PlanCost
from innet.plans.load import NO_LOAD, Load
from innet.plans.plan import Plan
from innet.plans.processor_costs import ProcessorCosts
from innet.topology import Topology

TYPICAL_BYTES = 1 << 20
"""Size for which :func:`plan_automatically` chooses when none is given."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision.

    Attributes:
        plan: the plan with the lowest estimated time.
        why: the reason in plain sentences, with the estimates of the plans that lost.
    """

    plan: Plan
    cost: PlanCost
    why: str


class PlanChooser:
    """The plans that a group can switch between, and the rule for choosing one by size.

    The choice depends on the topology, the ranks, the costs of the processor and the size alone,
    and all ranks are given the same, so every rank makes the same one. Each plan has its own
    expressions and therefore needs its own ``<group>`` name component.

    >>> chooser = PlanChooser(topology, topology.hosts)                  # doctest: +SKIP
    >>> chooser.choose(16 << 20).plan.algorithm                          # doctest: +SKIP
    'inc'
    """

    def __init__(
        self,
        topology: Topology,
        ranks: tuple[str, ...],
        *,
        processor: ProcessorCosts | None = None,
        virtual_scale: int = 1,
        load: Load = NO_LOAD,
    ) -> None:
        """
        Args:
            processor: of the nodes; without it, only links take time.
            virtual_scale: bytes on the links that each byte of the sizes to choose for stands for.
            load: what others use of the network.
        """
        self._topology = topology
        self._model = CostModel(topology, processor, load)
        self._virtual_scale = virtual_scale
        self._choices: dict[int, Choice] = {}
        self.plans: Mapping[str, Plan] = _candidates(topology, ranks, load)

    def choose(self, size_bytes: int) -> Choice:
        """The plan for an allreduce of ``size_bytes`` per rank; equal times go to the first."""
        if size_bytes not in self._choices:
            self._choices[size_bytes] = self._compare(size_bytes * self._virtual_scale)
        return self._choices[size_bytes]

    def costs(self, size_bytes: int) -> dict[str, PlanCost]:
        """The estimate of each algorithm for an allreduce of ``size_bytes`` per rank."""
        return {n: self._model.estimate(plan, size_bytes) for n, plan in self.plans.items()}

    def _compare(self, size_bytes: int) -> Choice:
        costs = self.costs(size_bytes)
        best = min(costs, key=lambda name: costs[name].total_s)
        others = "; ".join(f"{n} {say_cost(cost)}" for n, cost in costs.items() if n != best)
        ranks = self.plans[best].size
        why = (
            f"{best} for {size_bytes} bytes per rank, {ranks} ranks on {self._topology.name}: "
            f"{say_cost(costs[best])}.\nIn comparison: {others}."
        )
        return Choice(self.plans[best], costs[best], why)


def plan_automatically(
    topology: Topology,
    ranks: tuple[str, ...],
    *,
    size_bytes: int = TYPICAL_BYTES,
    processor: ProcessorCosts | None = None,
    load: Load = NO_LOAD,
) -> Plan:
    """The plan with the lowest estimated time for ``size_bytes`` per rank.

    Its ``algorithm`` is the chosen one; its ``why`` says what spoke for it, in numbers. Without
    ``processor``, only links take time; without ``load``, nobody else uses them.
    """
    choice = PlanChooser(topology, ranks, processor=processor, load=load).choose(size_bytes)
    why = "\n".join(part for part in (choice.why, choice.plan.why) if part)
    return replace(choice.plan, why=why)


def _candidates(topology: Topology, ranks: tuple[str, ...], load: Load) -> dict[str, Plan]:
    candidates = {"inc": plan_in_network(topology, ranks, load=load)}
    if len(ranks) & (len(ranks) - 1) == 0:
        candidates["halving-doubling"] = plan_halving_doubling(topology, ranks)
    return candidates | {
        "ring": plan_ring(topology, ranks),
        "ps": plan_parameter_server(topology, ranks),
    }


def say_cost(cost: PlanCost) -> str:
    """An estimate in words: the whole time, and what it is made of."""
    text = f"about {say_time(cost.total_s)}, of which {say_time(cost.latency_s)} latency"
    work = []
    if cost.busiest.link is not None:
        link = " to ".join(cost.busiest.link)
        work.append(f"{say_time(cost.busiest.time_s)} on the busiest link, {link}")
    if cost.processor_s:
        work.append(f"{say_time(cost.processor_s)} of the processors")
    return f"{text} and {' beside '.join(work)}" if work else text


def say_time(time_s: float) -> str:
    """A time with three digits."""
    return f"{time_s:.3g} s" if time_s >= 1 else f"{time_s * 1e3:.3g} ms"
