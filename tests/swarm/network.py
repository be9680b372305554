"""The topologies of scenarios."""

from __future__ import annotations

import random
from functools import lru_cache

from innet.topology import Host, Switch, Topology, load_topology
from innet.topology.blueprint import Blueprint, PartDefaults
from tests.swarm.scenario import Scenario

_RANDOM = "random:"


def network_of(scenario: Scenario) -> Topology:
    """The scenario's topology, with its links and the memory of its switches."""
    model = scenario.links
    topology = base_topology(scenario.topology)
    links = [
        link.model_copy(
            update={
                "rate_bps": model.rate_bps,
                "delay_s": model.delay_s,
                "loss": model.loss,
                "queue_bytes": model.queue_bytes,
                "mtu_bytes": model.mtu_bytes,
                "mark_bytes": None,
                "jitter_s": model.jitter_s,
                "reorder": model.reorder,
                "reorder_delay_s": model.reorder_delay_s,
                "duplicate": model.duplicate,
                "corrupt": model.corrupt,
            }
        )
        for link in topology.links
    ]
    nodes: dict[str, Host | Switch] = {}
    for name, node in topology.nodes.items():
        update: dict[str, int] = {"cache_bytes": scenario.cache_bytes}
        if node.kind == "switch":
            update["slots"] = scenario.slots
        nodes[name] = node.model_copy(update=update)
    return Topology(name=topology.name, nodes=nodes, links=tuple(links))


@lru_cache(maxsize=64)
def base_topology(expression: str) -> Topology:
    """The nodes of a scenario's topology, and which of them are linked."""
    if not expression.startswith(_RANDOM):
        return load_topology(expression)
    hosts, switches, more_links, seed = map(int, expression.removeprefix(_RANDOM).split("x"))
    return _random_topology(hosts, switches, more_links, random.Random(seed))


def _random_topology(
    hosts: int, switches: int, more_links: int, random_: random.Random
) -> Topology:
    """A tree of switches, some more links between them that close cycles, and hosts anywhere."""
    names = [f"s{number}" for number in range(switches)]
    pairs = {(names[random_.randrange(i)], names[i]) for i in range(1, switches)}
    for _ in range(more_links if switches > 1 else 0):
        first, second = sorted(random_.sample(range(switches), 2))
        pairs.add((names[first], names[second]))
    blueprint = Blueprint()
    for name in names:
        blueprint.add_switch(name)
    for first_name, second_name in sorted(pairs):
        blueprint.connect(first_name, second_name)
    for number in range(hosts):
        blueprint.add_host(f"h{number}")
        blueprint.connect(f"h{number}", random_.choice(names))
    return blueprint.topology("random", PartDefaults())
