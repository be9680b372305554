"""What the scripts in ``benchmarks/`` share: options, a deadline, one JSON line at the end."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from rich.console import Console

from innet.errors import EmulationError, InnetError
from innet.lab.compare.machine import Machine
from innet.lab.compare.measurement import Comparison, Measurement
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.report import write_report
from innet.lab.compare.table import render_table

_EXIT_INTERRUPTED = 130  # as shells have it: 128 and the number of SIGINT

_Value = TypeVar("_Value")

Figures = dict[str, Any]
"""What a benchmark found, by key."""


def argument_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="less data and fewer repetitions")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write JSON and reports there")
    return parser


def quantity(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Make a parser of the topology files' quantities usable as an argument's type."""

    def argument(text: str) -> _Value:
        try:
            return parse(text)
        except (InnetError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return argument


@dataclass(frozen=True)
class Benchmark:
    """One run of a benchmark.

    Attributes:
        name: of the script; names the saved files.
        arguments: what :func:`argument_parser` gave.
        deadline_s: after which the benchmark has failed, whatever hangs.
        machine: as it was before the run.
    """

    name: str
    arguments: argparse.Namespace
    deadline_s: float
    machine: Machine = field(default_factory=Machine.here)

    def run(self, measure: Callable[[ProgressBar], Coroutine[Any, Any, Figures]]) -> NoReturn:
        """Run ``measure``, print and save what it found, and exit: with 1 if it failed."""
        try:
            with ProgressBar(Console(stderr=True)) as progress:
                figures = asyncio.run(self._within_deadline(measure(progress)))
        except InnetError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted", file=sys.stderr)
            sys.exit(_EXIT_INTERRUPTED)
        line = json.dumps(figures | {"machine": self.machine.model_dump()})
        if self.arguments.save is not None:
            self.arguments.save.mkdir(parents=True, exist_ok=True)
            (self.arguments.save / f"{self.name}.figures.json").write_text(line + "\n")
        if self.arguments.json:
            print(line)
        else:
            for key, value in figures.items():
                print(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
        sys.exit(0)

    def show(self, comparison: Comparison, suffix: str = "") -> None:
        """Print a comparison and, if asked to, save it with its report."""
        Console(width=None if sys.stdout.isatty() else 200).print(render_table(comparison))
        if self.arguments.save is not None:
            path = self.arguments.save / f"{self.name}{suffix}"
            comparison.save(path.with_suffix(".json"))
            write_report(comparison, path.with_suffix(".html"))

    async def _within_deadline(self, measuring: Coroutine[Any, Any, Figures]) -> Figures:
        try:
            async with asyncio.timeout(self.deadline_s):
                return await measuring
        except TimeoutError:
            raise EmulationError(
                f"not done after {self.deadline_s:.0f} s. Is the machine busy with other things? "
                "Try --quick."
            ) from None


def measured(comparison: Comparison, methods: Sequence[str], size_bytes: int) -> list[Measurement]:
    """The measurements of all ``methods`` at a size.

    Raises:
        EmulationError: one of them is missing, or gave wrong results.
    """
    found = []
    for method in methods:
        measurement = comparison.measurement(method, size_bytes)
        if measurement is None:
            reasons = [f.reason for f in comparison.failures if f.method == method]
            raise EmulationError(f"{method} was not measured: {'; '.join(reasons)}")
        if not measurement.correct:
            raise EmulationError(f"{method} gave wrong results at {size_bytes} bytes")
        found.append(measurement)
    return found
