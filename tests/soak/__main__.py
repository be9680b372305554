"""The soak's command line: ``python -m tests.soak --help``."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from innet.lab.compare.progress import ProgressBar
from tests.soak.run import Report, Soak

_console = Console(highlight=False, soft_wrap=True, markup=False)


def main(
    minutes: Annotated[float, typer.Option(min=0.5, help="how long it trains")] = 30.0,
    seed: Annotated[
        int | None, typer.Option(help="what happens follows from it; by default a fresh one")
    ] = None,
    pace: Annotated[float, typer.Option(help="seconds between steps: the idle part")] = 0.25,
    log: Annotated[Path | None, typer.Option(help="where what happens is written down")] = None,
) -> None:
    """Train over an emulated network while switches, workers, the controller and links fail.

    Every step's sums are compared with NumPy's; in the end nothing may be left, and no process that
    lived on may have grown. The exit status is 1 when something was wrong.
    """
    if seed is None:
        seed = time.time_ns() // 1000 % 10**9
    path = log or Path("build") / f"soak-{seed}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    _console.print(f"soak: {minutes:g} minutes, seed {seed}, log in {path}")
    with (
        tempfile.TemporaryDirectory(prefix="innet-soak-") as registry,
        path.open("w", buffering=1) as into,
        ProgressBar(Console(stderr=True)) as progress,
    ):
        os.environ["XDG_RUNTIME_DIR"] = registry
        soak = Soak(minutes * 60, seed, pace, into, progress, Path(registry))
        report = asyncio.run(soak.run())
    _show(report)
    _console.print(f"replay: make soak MINUTES={minutes:g} SEED={seed}")
    raise typer.Exit(1 if report.problems else 0)


def _show(report: Report) -> None:
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(report.faults.items()))
    _console.print(
        f"{report.wall_s:.0f} s, {sum(report.steps)} steps {report.steps}, faults: {faults}; "
        f"{report.cpu_s / report.wall_s:.2f} processors busy"
    )
    _console.print("process               pid quantity           first third     last third")
    for growth in report.growths:
        _console.print(str(growth))
    for problem in report.problems:
        _console.print(f"PROBLEM: {problem}")
    _console.print(f"{len(report.problems)} problems")


if __name__ == "__main__":
    typer.run(main)
