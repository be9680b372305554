"""Runs what ``sim``, ``kv replay`` and ``compare`` measure, and shows and saves the comparison."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn

import typer

from innet.cli.interrupts import EXIT_INTERRUPTED, exit_at_interrupt, one_interrupt
from innet.cli.network_choice import end_at_second_signal
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from innet.cli.options import ExperimentOptions
    from innet.lab.compare.measurement import Comparison
    from innet.lab.compare.progress import ProgressBar, ProgressSink
    from innet.lab.experiment.outcome import Finished
    from innet.lab.experiment.run import Task
    from innet.lab.experiment.sweep import Standing
    from innet.node.node_config import Mode
    from innet.telemetry.logs.output import OutputSink

WITHOUT_RESULTS: Final = "interrupted before an operation was measured"
_SECOND_INTERRUPT: Final = "interrupted twice: nothing is saved"
_WITHOUT_REPORT: Final = "interrupted while the results were written: the report may be missing"


def run_and_show(
    tasks: Sequence[Task],
    workload: str,
    directory: Path,
    chosen: ExperimentOptions,
    *,
    mode: Mode | Literal["sim"] = "sim",
) -> None:
    """Run all tasks, write the results, and print the table or the JSON.

    Args:
        directory: for the JSON, the HTML report and the logs, where the user chose none.
        mode: ``sim``, or that of an emulated network, which does them one after the other.

    Raises:
        SimulationError: a result was wrong, or nothing was measured.
        EmulationError: the network cannot be launched.
        typer.Exit: the user ended it.
    """

    from innet.lab.compare.measurement import Machine
    from innet.lab.experiment.outcome import outcome

    machine, directory = Machine.here(), chosen.output or directory
    if mode == "sim":
        runs = _simulate_all(tasks, chosen.processes)
    else:
        runs = _replay_all(tasks, mode, directory / "logs")
    comparison = outcome(tasks[0].topology, workload, tasks[0].settings, machine, runs, mode)
    recordings = [task.recording for task in tasks if task.recording is not None]
    publish(comparison, directory, chosen.as_json, recordings)


def _simulate_all(tasks: Sequence[Task], processes: int | None) -> list[Finished]:
    """Simulate; from here on, the second Ctrl-C ends this process at once."""
    from innet.lab.compare.progress import ProgressBar
    from innet.lab.experiment.sweep import sweep

    try:
        with one_interrupt(_SECOND_INTERRUPT), ProgressBar(open_console(stderr=True)) as bar:
            cores = len(os.sched_getaffinity(0))
            progress = SimulationProgress(bar)
            runs = sweep(tasks, processes=processes or cores, progress=progress)
    except KeyboardInterrupt:
        _exit_without_results()
    exit_at_interrupt(_WITHOUT_REPORT)
    return runs


def _exit_without_results() -> NoReturn:
    say(WITHOUT_RESULTS, err=True)
    raise typer.Exit(EXIT_INTERRUPTED)


def _replay_all(tasks: Sequence[Task], mode: Mode, logs: Path) -> list[Finished]:
    from innet.lab.compare.progress import ProgressBar
    from innet.telemetry.logs.output import FileOutput

    end_at_second_signal()
    with ProgressBar(open_console(stderr=True)) as bar:
        return asyncio.run(_replay_in_turn(tasks, mode, FileOutput(logs), bar))


async def _replay_in_turn(
    tasks: Sequence[Task], mode: Mode, output: OutputSink, bar: ProgressBar
) -> list[Finished]:
    from innet.lab.experiment.emulated_replay import replay_on_network

    runs: list[Finished] = []
    for number, task in enumerate(tasks):

        def told(share: float, text: str, number: int = number, task: Task = task) -> None:
            bar((number + share) / len(tasks), f"{task.algorithm}: {text}")

        told(0.0, "starting")
        runs.append((task, await replay_on_network(task, mode, output, told)))
        if runs[-1][1].interrupted:
            break
    return runs


def publish(
    comparison: Comparison, directory: Path, as_json: bool, recordings: Sequence[Path] = ()
) -> None:
    """Show a comparison of workloads; see :func:`run_and_show`."""
    from innet.errors import SimulationError

    if comparison.interrupted and not comparison.measurements:
        _exit_without_results()
    show_comparison(comparison, directory, as_json, recordings)
    wrong = sorted({m.method for m in comparison.measurements if not m.correct})
    if wrong:
        raise SimulationError(
            f"wrong results: {', '.join(wrong)}. This is a defect of innet; please report it with "
            "the topology, the workload and the seed"
        )
    if comparison.interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if not comparison.measurements:
        reasons = "; ".join(failure.reason for failure in comparison.failures)
        raise SimulationError(f"no operation succeeded: {reasons}")


def show_comparison(
    comparison: Comparison, directory: Path, as_json: bool, recordings: Sequence[Path] = ()
) -> None:
    """Write ``comparison.json`` and ``report.html``, and print the table, or the JSON.

    Args:
        recordings: for the live view; the report links to those that were written.
    """

    from innet import extras
    from innet.lab.compare.report import NO_FIGURES, render_table, write_report

    document, report = directory / "comparison.json", directory / "report.html"
    comparison.save(document)
    recordings = [path for path in recordings if path.exists()]
    write_report(comparison, report, recordings)
    if as_json:
        say(comparison.model_dump_json(indent=2))
    else:
        console = open_console(highlight=False)
        console.print(render_table(comparison, console.width))
    say(f"JSON: {document}\nreport: {report}", err=as_json)
    if recordings:
        more = f" (and {len(recordings) - 1} more)" if len(recordings) > 1 else ""
        say(f"recording: innet watch {shlex.quote(str(recordings[0]))} --web{more}", err=as_json)
    if not extras.is_installed("matplotlib"):
        say(NO_FIGURES, err=True)


def parsed_sizes_bytes(
    text: str | None, option: str, *, block_bytes: int | None = None
) -> list[int]:
    """Sizes separated by commas, in ascending order.

    Args:
        text: the sizes; ``None``: there are none.
        option: that an error message names.
        block_bytes: of a block, where a size can be a number of blocks.
    """
    from innet.cli.options import values_of
    from innet.lab.workload.document import parse_memory_bytes
    from innet.quantities import parse_size_bytes

    if text is None:
        return []

    def parsed(part: str) -> int:
        return (
            parse_size_bytes(part) if block_bytes is None else parse_memory_bytes(part, block_bytes)
        )

    with values_of(option):
        return sorted({parsed(part) for part in text.split(",")})


class SimulationProgress:
    """Reports virtual time, packets per second and operations done to a sink."""

    def __init__(self, sink: ProgressSink) -> None:
        self._sink = sink
        self._seen: dict[int, int] = {}
        self._packets = 0
        self._begun_s = time.monotonic()

    def __call__(self, standing: Standing) -> None:
        """Report the progress."""
        for number, moment in standing.moments.items():
            # A run that begins under the number of one that has ended counts from 0 again.
            before = self._seen.get(number, 0)
            self._packets += moment.packets - (before if moment.packets >= before else 0)
            self._seen[number] = moment.packets
        self._sink(standing.fraction, self._text(standing))

    def _text(self, standing: Standing) -> str:
        from innet.quantities import counted, rounded_duration

        per_s = self._packets / max(1e-3, time.monotonic() - self._begun_s)
        parts = [f"{standing.ended} of {counted(standing.runs, 'run')} done"]
        if moments := list(standing.moments.values()):
            done, of = (
                sum(getattr(m, k) for m in moments) for k in ("operations", "of_operations")
            )
            simulated_s = max(m.virtual_s for m in moments)
            parts += [f"{done}/{of} operations", f"{rounded_duration(simulated_s)} simulated"]
        return ", ".join((*parts, f"{per_s / 1e3:.0f}k packets/s"))
