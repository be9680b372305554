"""The swarm's command line: ``python -m tests.swarm --help``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.swarm.draw import scenario_from_seed
from tests.swarm.execution import Execution
from tests.swarm.kinds import kind_of
from tests.swarm.scenario import Scenario
from tests.swarm.shrink import shrink
from tests.swarm.sweep import SeedResult, Summary, sweep

_console = Console(highlight=False, soft_wrap=True)


def main(
    seed: Annotated[int | None, typer.Argument(help="run this one seed")] = None,
    seeds: Annotated[int, typer.Option(help="run so many seeds from --base on")] = 0,
    base: Annotated[int | None, typer.Option(help="the first seed; by default a fresh one")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="processes")] = 1,
    scenario: Annotated[Path | None, typer.Option(help="run the scenario of this file")] = None,
    log: Annotated[bool, typer.Option(help="print what happened, in order")] = False,
    shrinking: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="cut a failing scenario down")
    ] = False,
    shrink_s: Annotated[float, typer.Option(help="seconds to spend on that")] = 60.0,
) -> None:
    """Run random networks with random programs and faults, and check what must always hold.

    Without SEED or --scenario, many seeds; the commands that replay the failing ones are printed,
    and the exit status is 1 when there are any.
    """
    if scenario is not None:
        failed = _replay(Scenario.from_json(scenario.read_text()), log, shrinking, shrink_s)
    elif seed is not None:
        failed = _replay(scenario_from_seed(seed), log, shrinking, shrink_s)
    else:
        first = base if base is not None else fresh_base()
        failed = _run_many(first, max(seeds, 1), jobs)
    raise typer.Exit(1 if failed else 0)


def fresh_base() -> int:
    """A first seed that nobody has run before, more or less."""
    return time.time_ns() // 1000 % 10**12


def _replay(scenario: Scenario, log: bool, shrinking: bool, shrink_s: float) -> bool:
    outcome = Execution(scenario).run()
    if shrinking and outcome.problems:
        _console.print("shrinking:", kind_of(outcome.problems[0]))
        scenario = shrink(scenario, shrink_s, note=lambda text: _console.print("  ", text))
        outcome = Execution(scenario).run()
    if log or shrinking:
        _print_plain(scenario.to_json())
    if log:
        _print_plain("\n".join(outcome.log))
    _print_plain("\n".join(outcome.problems))
    _console.print(
        f"{outcome.operations} operations of ranks, {outcome.failed_operations} failed, "
        f"{outcome.packets} packets, digest {outcome.digest:016x}: "
        f"{len(outcome.problems)} problems"
    )
    return bool(outcome.problems)


def _run_many(first: int, count: int, jobs: int) -> bool:
    _console.print(f"seeds {first} to {first + count - 1}")
    began_s = time.monotonic()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.1f}/s"),
        TimeRemainingColumn(),
        console=_console,
    ) as progress:
        task = progress.add_task("seeds", total=count, rate=0.0)

        def each(result: SeedResult) -> None:
            passed_s = time.monotonic() - began_s
            progress.advance(task)
            done = progress.tasks[0].completed
            progress.update(task, rate=done / passed_s)
            if result.problems:
                told = f"{result.seed}: {result.problems[0][:300]}"
                progress.console.print(told, markup=False)

        summary = sweep(range(first, first + count), jobs, each)
    _print_summary(summary, time.monotonic() - began_s)
    return bool(summary.failures)


def _print_summary(summary: Summary, wall_s: float) -> None:
    _console.print(f"{summary} in {wall_s:.1f} s ({summary.seeds / wall_s:.1f} seeds/s)")
    for result in summary.slow:
        _console.print(f"slow: seed {result.seed} took {result.wall_s:.1f} s")
    if summary.failures:
        _console.print("replay with a log, and cut down:")
    for result in summary.failures:
        _console.print(f"  python -m tests.swarm {result.seed} --log --shrink")


def _print_plain(text: str) -> None:
    if text:
        _console.print(text, markup=False)


if __name__ == "__main__":
    typer.run(main)
