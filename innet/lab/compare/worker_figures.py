"""For a benchmark that is measured by the ranks of a job: its own file is their program.

def main() -> None:
    given = worker_arguments()
    if given is not None:
        ...  # a rank: measure; rank 0 calls report(figures)
        return
    figures = await measured_by_workers(__file__, (size_bytes, turns), topology)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.lab.compare.benchmark import Figures
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.collectives.communicator import Communicator

_WORKER = "--worker"
_RESULT = "figures: "


def worker_arguments() -> list[str] | None:
    """What the benchmark gave this rank; None in the benchmark itself."""
    return sys.argv[2:] if sys.argv[1:2] == [_WORKER] else None


def times_in_turns_s(
    comm: Communicator,
    methods: Mapping[str, Callable[[int], object]],
    turns: int,
    *,
    after_turn: Callable[[int], None] | None = None,
) -> dict[str, list[float]]:
    """Let all ranks do each of ``methods`` in turn; what the slowest took, turn by turn.

    A turn before them warms up and is not told.

    Args:
        comm: the same on all ranks, which begin together after a barrier.
        methods: by name; each gets the number of its turn, 0 being the one that warms up.
        turns: how often.
        after_turn: clears away what a turn left; its time does not count.
    """
    times_s: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(1 + turns):
        for name, run in methods.items():
            comm.barrier()
            began_s = time.perf_counter()
            run(turn)
            taken_s = np.array([time.perf_counter() - began_s])
            longest_s = float(comm.allreduce(taken_s, "max")[0])
            if turn > 0:
                times_s[name].append(longest_s)
        if after_turn is not None:
            after_turn(turn)
    return times_s


def report(figures: Figures) -> None:
    """Tell the benchmark what its ranks found; one of them calls this, once."""
    print(_RESULT + json.dumps(figures))


async def measured_by_workers(
    program: str,
    arguments: Sequence[object],
    topology: Topology,
    *,
    mode: Mode = "local",
    settings: Settings | None = None,
) -> Figures:
    """Run a benchmark's own file once per host, with ``inc``; what one of them reports.

    Args:
        program: absolute path of the file.
        arguments: for :func:`worker_arguments` there, as text.
        topology: the network; it is launched for this alone.
        mode: as :class:`Session` takes it.
        settings: of its nodes.

    Raises:
        EmulationError: the network cannot be launched, or no rank reports.
        JobFailed: a rank ended with an error.
    """
    lines: list[str] = []
    async with Session(
        topology, mode=mode, settings=settings, output=lambda _label, line: lines.append(line)
    ) as session:
        command = [sys.executable, program, _WORKER, *map(str, arguments)]
        await session.run_workers(command, algorithm="inc")
    for line in lines:
        if line.startswith(_RESULT):
            figures: Figures = json.loads(line.removeprefix(_RESULT))
            return figures
    raise EmulationError("the workers gave no figures: " + "; ".join(lines))
