"""Which metrics a node has, and where each is in its answer (see ``NodeAgent.status``).

The native node describes its own counters (``_core.describe_metrics``). Names follow Prometheus'
conventions: a counter ends in ``_total``, base units stand before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from innet._native import _core

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as it is exposed; without ``_total``, which counters get by themselves.
        help: what it is.
        kind: a counter starts from 0 with the node's process.
        path: keys that lead to the value.
    """

    name: str
    help: str
    kind: Kind
    path: tuple[str, ...]


def _families(table: str, *path: str) -> tuple[Family, ...]:
    """The exposed metrics of one table of the native status, which ``path`` leads to."""
    return tuple(
        Family(f"innet_{name}", text, cast(Kind, kind), (*path, key))
        for key, name, kind, text in _core.describe_metrics()[table]
        if name
    )


OF_NODE: tuple[Family, ...] = (
    Family(
        "innet_process_cpu_seconds", "Processor time of the node's process", "counter", ("cpu_s",)
    ),
    Family(
        "innet_process_resident_memory_bytes",
        "Memory of the node's process",
        "gauge",
        ("resident_bytes",),
    ),
    Family("innet_uptime_seconds", "Time since the node's process came up", "gauge", ("uptime_s",)),
    Family("innet_clock_seconds", "The node's clock, Unix time", "gauge", ("time_s",)),
    Family(
        "innet_reduction_slots", "Reductions that a switch may work on at once", "gauge", ("slots",)
    ),
    Family(
        "innet_packet_memory_bytes",
        "Memory of packets that are held",
        "gauge",
        ("pool_bytes_in_use",),
    ),
    *(
        family
        for table in ("node", "reducer", "endpoint", "management")
        for family in _families(table, table)
    ),
)
"""Labels: ``node``."""

OF_FACE: tuple[Family, ...] = _families("links")
"""Labels: ``node``, ``face``, ``peer``."""

OF_LINK: tuple[Family, ...] = _families("port")
"""Labels: ``node``, ``peer``: one direction of a link."""
