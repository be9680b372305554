"""Runs simulations with a progress bar, and shows and saves what they compare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from innet.cli.text_output import open_console

if TYPE_CHECKING:
    from innet.lab.compare.measurement import Comparison
    from innet.lab.simulation.experiment.task import Task

_EXIT_INTERRUPTED = 130  # as shells have it: 128 and the number of SIGINT


def simulate_and_show(
    tasks: Sequence[Task], workload: str, *, processes: int | None, directory: Path, as_json: bool
) -> None:
    """Do all runs, write what came out into ``directory``, and print the table, or the JSON.

    Args:
        tasks: the runs, of one topology.
        workload: its name.
        processes: how many at once; by default as many as there are cores.
        directory: for the JSON and the page.
        as_json: print that in place of the table.

    Raises:
        SimulationError: a result was wrong, or nothing was measured.
        typer.Exit: the user ended it.
    """

    from innet.cli.simulation_progress import SimulationProgress
    from innet.lab.compare.machine import Machine
    from innet.lab.compare.progress import ProgressBar
    from innet.lab.simulation.experiment.outcome import outcome
    from innet.lab.simulation.experiment.sweep import sweep

    machine = Machine.here()
    cores = len(os.sched_getaffinity(0))
    with ProgressBar(open_console(stderr=True)) as bar:
        runs = sweep(tasks, processes=processes or cores, told=SimulationProgress(bar))
    comparison = outcome(tasks[0].topology, workload, tasks[0].settings, machine, runs)
    publish(comparison, directory, as_json)


def publish(comparison: Comparison, directory: Path, as_json: bool) -> None:
    """Show a comparison of workloads; see :func:`simulate_and_show`."""
    from innet.cli.comparison_output import show_comparison
    from innet.errors import SimulationError

    show_comparison(comparison, directory, as_json)
    wrong = sorted({m.method for m in comparison.measurements if not m.correct})
    if wrong:
        raise SimulationError(
            f"wrong results: {', '.join(wrong)}. This is a defect of innet; please report it with "
            "the topology, the workload and the seed"
        )
    if comparison.interrupted:
        raise typer.Exit(_EXIT_INTERRUPTED)
    if not comparison.measurements:
        reasons = "; ".join(failure.reason for failure in comparison.failures)
        raise SimulationError(f"no operation ended well: {reasons}")


def parsed_sizes_bytes(
    text: str | None, option: str, *, block_bytes: int | None = None
) -> list[int]:
    """Sizes separated by commas, in ascending order.

    Args:
        text: the sizes; ``None``: there are none.
        option: that an error message names.
        block_bytes: of a block, where a size can be a number of blocks.

    Raises:
        typer.BadParameter: one of them is no size.
    """
    from innet.lab.simulation.workload.sizes import parse_memory_bytes
    from innet.quantities import QuantityError, parse_size_bytes

    if text is None:
        return []

    def parsed(part: str) -> int:
        return (
            parse_size_bytes(part) if block_bytes is None else parse_memory_bytes(part, block_bytes)
        )

    try:
        return sorted({parsed(part) for part in text.split(",")})
    except QuantityError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from None
