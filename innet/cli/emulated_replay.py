"""Replays requests over emulated networks with a progress bar, and shows what they compare."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from innet.cli.network_choice import end_at_second_signal
from innet.cli.simulated_comparison import publish
from innet.cli.text_output import open_console

if TYPE_CHECKING:
    from innet.lab.compare.progress import ProgressBar
    from innet.lab.simulation.experiment.outcome import Finished
    from innet.lab.simulation.experiment.task import Task
    from innet.node.node_config import Mode
    from innet.telemetry.logs.output import OutputSink


def replay_and_show(
    tasks: Sequence[Task], workload: str, *, mode: Mode, directory: Path, as_json: bool
) -> None:
    """Do all runs, one after the other, and write and print what came out.

    Args:
        tasks: the runs, of one topology.
        workload: its name.
        mode: of the network.
        directory: for the JSON, the page, and what the processes print.
        as_json: print that in place of the table.

    Raises:
        SimulationError: a block was wrong, or nothing was measured.
        EmulationError: the network cannot be launched.
        typer.Exit: the user ended it.
    """

    from innet.lab.compare.machine import Machine
    from innet.lab.compare.progress import ProgressBar
    from innet.lab.simulation.experiment.outcome import outcome
    from innet.telemetry.logs.output import FileOutput

    machine = Machine.here()
    end_at_second_signal()
    with ProgressBar(open_console(stderr=True)) as bar:
        runs = asyncio.run(_replay_all(tasks, mode, FileOutput(directory / "logs"), bar))
    comparison = outcome(tasks[0].topology, workload, tasks[0].settings, machine, runs, mode)
    publish(comparison, directory, as_json)


async def _replay_all(
    tasks: Sequence[Task], mode: Mode, output: OutputSink, bar: ProgressBar
) -> list[Finished]:
    from innet.lab.replay.emulated.run import replay_on_network

    runs: list[Finished] = []
    for number, task in enumerate(tasks):

        def told(share: float, text: str, number: int = number, task: Task = task) -> None:
            bar((number + share) / len(tasks), f"{task.algorithm}: {text}")

        told(0.0, "starting")
        runs.append((task, await replay_on_network(task, mode, output, told)))
        if runs[-1][1].interrupted:
            break
    return runs
