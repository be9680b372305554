"""Which packets of a run are written down, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from innet.errors import SimulationError
from innet.topology import Topology
from innet.topology.names import did_you_mean

SUFFIX = ".pcapng"
_JOINT = "--"

Links = tuple[tuple[str, str], ...]
"""Pairs of neighbours, both directions of each."""


@dataclass(frozen=True)
class PacketTrace:
    """A trace of one run.

    Attributes:
        path: of the file.
        links: whose packets are in it; ``None``: all links.
    """

    path: Path
    links: Links | None = None


def links_at(topology: Topology, places: Sequence[str]) -> Links:
    """The links that ``places`` name: ``h0--s0`` one, ``s0`` all of that node.

    Raises:
        SimulationError: there is no such node or link.
    """
    found: dict[tuple[str, str], None] = {}
    for place in places:
        ends = tuple(end.strip() for end in place.split(_JOINT))
        links = [link.nodes for link in topology.links if set(ends) <= set(link.nodes)]
        if len(ends) > 2 or not links:
            hint = did_you_mean(place, topology.nodes) if len(ends) == 1 else ""
            raise SimulationError(
                f"{topology.name} has no node or link {place!r} whose packets could be captured"
                f"{hint}; name nodes (s0) and links (h0--s0), which `innet topology show` lists"
            )
        found.update(dict.fromkeys(links))
    return tuple(found)


def trace_paths(into: Path, names: Sequence[str]) -> list[Path]:
    """The file of each run: ``into`` itself for a single one, or else files in that directory.

    Raises:
        SimulationError: it is a file, and there are several runs; or it cannot be written there.
    """
    is_file = into.suffix == SUFFIX
    if is_file and len(names) > 1:
        raise SimulationError(
            f"{into} can have the packets of one run, and there are {len(names)}; give a directory "
            "for a file of each, or one algorithm, size and seed"
        )
    try:
        (into.parent if is_file else into).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(
            f"packet traces cannot be written to {into}: {error.strerror}; give another directory"
        ) from None
    return [into] if is_file else [into / f"{name}{SUFFIX}" for name in names]
