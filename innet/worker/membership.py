"""A process's place in one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from innet.node.control.protocol import Failure, job_of
from innet.plans import Plan


def _nothing() -> None:
    """What there is to free before anything was made."""


def _nobody(_plans: Mapping[str, Plan]) -> None:
    """Who hears of another placement before anybody asks for sums."""


@dataclass(eq=False)
class Membership:
    """One process's place in one group of ranks.

    The group's ranks are in the order that its members asked for; plans number them in the order of
    the topology's tree, as *positions*, so that every subtree is an interval. ``nodes`` here and
    ``ranks`` of a plan name the same nodes, and tell a rank from its position.

    Attributes:
        name: the group's name.
        number: tells the group from others of that name, at the same time, before and after it.
        nodes: the node of each rank.
        rank: of this process.
        plans: plan by name prefix of its values, such as ``/j1/g0.inc``, as they are placed now.
        algorithm: of its plans, as asked for.
        made: :attr:`plans` as they were made for the whole network.
        ready: this process answers for its names.
        failure: why the group can go on no longer, if it cannot.
        heard: what ended an operation here, as another rank passed it on: nobody else may know yet.
        blamed: why an operation did not end in time here, and the rank that it waited for in vain.
        release: frees what the node keeps for the group, once nobody needs it any more.
        on_placed: hears of :attr:`plans` with another placement, on a thread of the node's agent.
    """

    name: str
    number: int
    nodes: tuple[str, ...]
    rank: int
    plans: Mapping[str, Plan]
    algorithm: str = "auto"
    made: Mapping[str, Plan] = field(default_factory=dict)
    ready: bool = False
    failure: Failure | None = None
    heard: Failure | None = None
    blamed: Failure | None = None
    release: Callable[[], None] = _nothing
    on_placed: Callable[[Mapping[str, Plan]], None] = _nobody

    @property
    def job(self) -> str:
        """The job whose group it is."""
        return job_of(next(iter(self.plans)))

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.nodes)

    @property
    def positions(self) -> tuple[str, ...]:
        """The node of each position: what all the group's plans call their ranks."""
        return next(iter(self.plans.values())).ranks
