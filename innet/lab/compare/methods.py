"""What can be compared: each method is an algorithm of a contender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from innet.errors import PlanError
from innet.plans import ALGORITHMS

OWN = "innet"
GLOO = "gloo"
OPENMPI = "openmpi"


@dataclass(frozen=True)
class Method:
    """One way to do an allreduce.

    Attributes:
        name: what users type and JSON has.
        title: what people read.
        contender: whose workers run it: ``innet``, ``gloo`` or ``openmpi``.
        call: the contender's name of the algorithm.
    """

    name: str
    title: str
    contender: str
    call: str


_OWN_TITLES = {
    "inc": "in-network aggregation",
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
        Method("openmpi", "Open MPI: MPI_Allreduce", OPENMPI, "allreduce"),
    )
}
"""Foreign methods, by name. They run over the kernel's links, in ``netns`` mode."""


def find_method(name: str) -> Method:
    """The method called ``name``: an algorithm of :data:`innet.plans.ALGORITHMS` or a baseline.

    Raises:
        PlanError: there is none.
    """
    if name in BASELINES:
        return BASELINES[name]
    if name in ALGORITHMS:
        return Method(name, _OWN_TITLES.get(name, name), OWN, name)
    known = ", ".join((*ALGORITHMS, *BASELINES))
    raise PlanError(f"nothing called {name!r} can be compared; known are {known}")


def by_contender(methods: Sequence[Method]) -> dict[str, list[Method]]:
    """The methods of each contender, in their order."""
    grouped: dict[str, list[Method]] = {}
    for method in methods:
        grouped.setdefault(method.contender, []).append(method)
    return grouped
