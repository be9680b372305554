"""Divides the memory that a cluster has for blocks, by design."""

from __future__ import annotations

from collections.abc import Mapping

from innet.kv.designs import MemoryShares
from innet.simulation.workload.kv import KvSpecification
from innet.topology import Switch, Topology


def worker_blocks(written: KvSpecification, design: str, workers: int) -> int | None:
    """Blocks that each worker has room for; ``None``: all."""
    return _blocks(written, _shares(written, design).workers / workers)


def home_blocks(
    written: KvSpecification, design: str, homes: Mapping[str, float]
) -> dict[str, int | None]:
    """Blocks that each home has room for, by its weight; ``None``: all."""
    share = _shares(written, design).homes / sum(homes.values())
    return {home: _blocks(written, share * weight) for home, weight in homes.items()}


def with_switch_memory(topology: Topology, written: KvSpecification, design: str) -> Topology:
    """The topology with the switches' part of the memory, in equal shares, as content stores.

    Where memory is unlimited, what a switch of the topology has is all it has.
    """
    share = _shares(written, design).switches
    if share and written.cache is None:
        return topology
    cache_bytes = int((written.cache or 0) * share / max(1, len(topology.switches)))
    nodes = {
        name: Switch(**(dict(node) | {"cache_bytes": cache_bytes}))
        if isinstance(node, Switch)
        else node
        for name, node in topology.nodes.items()
    }
    return Topology(name=topology.name, nodes=nodes, links=topology.links, events=topology.events)


def _shares(written: KvSpecification, design: str) -> MemoryShares:
    return MemoryShares.of_design(design, written.worker_share, written.switch_share)


def _blocks(written: KvSpecification, share: float) -> int | None:
    if written.cache is None:
        return None if share else 0
    return int(written.cache * share / written.block)
