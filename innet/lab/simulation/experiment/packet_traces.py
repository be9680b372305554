"""Which packets of a run are written down, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from innet.errors import SimulationError
from innet.topology.link_choice import Links

SUFFIX = ".pcapng"


@dataclass(frozen=True)
class PacketTrace:
    """A trace of one run.

    Attributes:
        path: of the file.
        links: whose packets are in it; ``None``: all links.
    """

    path: Path
    links: Links | None = None


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
