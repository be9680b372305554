"""What happens to the network and its processes, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from innet.topology import Topology

Kind = Literal["kill", "stop", "down"]

CONTROLLER = "controller"
_LONGEST_PAUSE_S = 14.0
_SHORTEST_PAUSE_S = 2.0
_LONGEST_S = 5.0
"""Of a process that is stopped, or a link that is down."""

_CHANCES: dict[tuple[Kind, str], int] = {
    ("kill", "switch"): 3,
    ("kill", "worker"): 2,
    ("kill", "controller"): 1,
    ("stop", "switch"): 4,
    ("stop", "worker"): 4,
    ("stop", "controller"): 1,
    ("down", "link"): 6,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        at_s: since the beginning of the training.
        kind: SIGKILL, SIGSTOP and SIGCONT, or a link taken down and up.
        target: a node, ``controller``, or a link as ``h0:eth0``, the end that is taken down.
        for_s: until it is over; 0 for what is killed.
    """

    at_s: float
    kind: Kind
    target: str
    for_s: float = 0.0

    def __str__(self) -> str:
        if self.kind == "kill":
            return f"kill -9 {self.target}"
        what = f"link {self.target} down" if self.kind == "down" else f"SIGSTOP {self.target}"
        return f"{what} for {self.for_s:.1f} s"


def draw_faults(
    topology: Topology,
    randomness: random.Random,
    duration_s: float,
    killable_hosts: Sequence[str],
    most_killed_hosts: int | None,
) -> Iterator[Fault]:
    """The faults of one training, in the order of time; they may overlap.

    One switch of each level is never killed, so that some process of it lives for long.

    Args:
        topology: where.
        randomness: all choices come from it.
        duration_s: none begins later, or is not over by then.
        killable_hosts: whose workers may be killed.
        most_killed_hosts: each of them once at most, and so many; ``None``: again and again.
    """
    hosts = list(killable_hosts)
    left = len(hosts) if most_killed_hosts is None else most_killed_hosts
    at_s = 0.0
    while True:
        at_s += randomness.uniform(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S)
        if at_s + _LONGEST_S > duration_s:
            return
        (kind, what), *_ = randomness.choices(list(_CHANCES), list(_CHANCES.values()))
        for_s = 0.0 if kind == "kill" else round(randomness.uniform(0.1, _LONGEST_S), 1)
        if (kind, what) == ("kill", "worker"):
            if left == 0 or not hosts:
                continue
            target = randomness.choice(hosts)
            if most_killed_hosts is not None:
                hosts.remove(target)
                left -= 1
        elif what == "switch":
            spared = {"spine1", "leaf0"} if kind == "kill" else set()
            target = randomness.choice([s for s in topology.switches if s not in spared])
        elif what == "worker":
            target = randomness.choice(topology.hosts)
        elif what == "link":
            link = randomness.choice(topology.links)
            target = str(randomness.choice((link.a, link.b)))
        else:
            target = CONTROLLER
        yield Fault(round(at_s, 1), kind, target, for_s)
