"""The baselines as algorithms: what users type beside ``inc`` and ``ring``, and what it makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from innet.cluster.control.group_plans import plan_options
from innet.errors import PlanError
from innet.lab.simulation.baselines.parameter_server import ParameterServer
from innet.lab.simulation.baselines.ring import Ring
from innet.lab.simulation.simulation import Simulation
from innet.plans import ALGORITHMS
from innet.suggestions import did_you_mean

RING: Final = "tcp-ring"
PARAMETER_SERVER: Final = "tcp-ps"
TITLES: Final = {
    RING: "ring over TCP",
    PARAMETER_SERVER: "parameter server over TCP",
}
_OPTIONS: Final = {RING: ("congestion",), PARAMETER_SERVER: ("congestion", "server")}


class Baseline(Protocol):
    """Allreduces of lengths, one after the other."""

    async def allreduce(self, size_bytes: int) -> None:
        """One of ``size_bytes`` per rank; returns when all ranks have the result."""


def is_baseline(algorithm: str) -> bool:
    """Whether an algorithm with its options is one of these.

    >>> is_baseline("tcp-ps:server=h3"), is_baseline("ps")
    (True, False)
    """
    return algorithm.partition(":")[0] in TITLES


def require_known(algorithm: str) -> None:
    """See to it that ``algorithm`` names one of innet's own or of these.

    Raises:
        PlanError: it does not; the message lists them.
    """
    name = algorithm.partition(":")[0]
    if name not in TITLES and name not in ALGORITHMS:
        raise PlanError(
            f"unknown algorithm {name!r}{did_you_mean(name, (*ALGORITHMS, *TITLES))}; known are "
            f"{', '.join(ALGORITHMS)}, and over TCP {', '.join(TITLES)}"
        )


def make_baseline(algorithm: str, sim: Simulation, hosts: Sequence[str]) -> Baseline:
    """What ``algorithm`` names, between ``hosts``.

    Raises:
        PlanError: an option is unknown, or the server is none of the hosts.
        SimulationError: fewer than two hosts, or an unknown congestion control.
    """
    name, options = _parsed(algorithm)
    if name == RING:
        return Ring(sim, hosts, **options)
    server = options.get("server")
    if server is not None and server not in hosts:
        raise PlanError(f"{algorithm}: {server!r} is none of the job's hosts: {', '.join(hosts)}")
    return ParameterServer(sim, hosts, **options)


def plan_alike(algorithm: str) -> str:
    """The algorithm of innet's own that loads the links with the same payload.

    >>> plan_alike("tcp-ps:server=h3,congestion=reno")
    'ps:server=h3'
    """
    name, options = _parsed(algorithm)
    if name == RING:
        return "ring"
    return f"ps:server={options['server']}" if "server" in options else "ps"


def _parsed(algorithm: str) -> tuple[str, dict[str, Any]]:
    name, _, text = algorithm.partition(":")
    options = plan_options(text)
    for option in options:
        if option not in _OPTIONS[name]:
            known = ", ".join(_OPTIONS[name])
            raise PlanError(f"{name} has no option {option!r}; it has {known}")
    return name, options
