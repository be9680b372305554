"""What all benchmarks share: options, a deadline, one JSON line at the end.

A benchmark whose ranks measure runs its own file as their program::

    def main() -> None:
        given = worker_arguments()
        if given is not None:
            ...  # a rank: measure; rank 0 calls report(figures)
            return
        figures = await measured_by_workers(__file__, (size_bytes, turns), topology)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import functools
import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from rich.console import Console

from innet.cluster.launch import Session
from innet.errors import EmulationError, InnetError
from innet.lab.compare.measurement import Comparison, Machine, Measurement
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.report import render_table, write_report
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology

if TYPE_CHECKING:
    from innet.collectives.communicator import Communicator


_EXIT_INTERRUPTED = 130  # as shells report it: 128 plus the number of SIGINT

_CLEANUP_S = 1.5

_Value = TypeVar("_Value")

Figures = dict[str, Any]
"""The results of a benchmark, by key."""


def argument_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="less data and fewer repetitions")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    parser.add_argument("--save", type=Path, metavar="DIR", help="write JSON and reports there")
    return parser


def quantity(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Turn a parser of quantities into the type of an argument."""

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
        deadline_s: after which the benchmark fails.
        machine: before the run.
        done: figures so far, printed if Ctrl-C ends the run.
    """

    name: str
    arguments: argparse.Namespace
    deadline_s: float
    machine: Machine = field(default_factory=Machine.here)
    done: Figures = field(default_factory=dict)

    def run(self, measure: Callable[[ProgressBar], Coroutine[Any, Any, Figures]]) -> NoReturn:
        """Run ``measure``, print and save its figures, and exit; the status is 1 if it failed.

        SIGTERM ends it as Ctrl-C does, so that it ends what it started; a second one kills.
        """
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _interrupt)
        try:
            with ProgressBar(Console(stderr=True)) as progress:
                figures = asyncio.run(self._within_deadline(measure(progress)))
        except InnetError as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            self._print(self.done)
            print(f"{self.name}: interrupted", file=sys.stderr)
            sys.exit(_EXIT_INTERRUPTED)
        line = json.dumps(figures | {"machine": self.machine.model_dump()})
        if self.arguments.save is not None:
            self.arguments.save.mkdir(parents=True, exist_ok=True)
            (self.arguments.save / f"{self.name}.figures.json").write_text(line + "\n")
        if self.arguments.json:
            print(line)
        else:
            self._print(figures)
        sys.exit(0)

    def _print(self, figures: Figures) -> None:
        for key, value in figures.items():
            print(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")

    def show(self, comparison: Comparison, suffix: str = "") -> None:
        """Print a comparison; with ``--save``, write it and its report."""
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


async def computed(work: Callable[[], _Value]) -> _Value:
    """The result of a computation on a thread, which Ctrl-C ends at its next line of Python."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[_Value] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        def unless_cancelled() -> None:
            if not result.done():
                settled()

        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(unless_cancelled)

    def compute() -> None:
        try:
            value = work()
        except BaseException as error:
            settle(functools.partial(result.set_exception, error))
        else:
            settle(functools.partial(result.set_result, value))

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    try:
        return await result
    except asyncio.CancelledError:
        interrupt = ctypes.py_object(KeyboardInterrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), interrupt)
        thread.join(_CLEANUP_S)
        raise


def _interrupt(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


def measured(comparison: Comparison, methods: Sequence[str], size_bytes: int) -> list[Measurement]:
    """The measurements of all ``methods`` at a size."""
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


_WORKER = "--worker"
_RESULT = "figures: "


def worker_arguments() -> list[str] | None:
    """The arguments of this rank; ``None`` in the benchmark itself."""
    return sys.argv[2:] if sys.argv[1:2] == [_WORKER] else None


def times_in_turns_s(
    comm: Communicator,
    methods: Mapping[str, Callable[[int], object]],
    turns: int,
    *,
    after_turn: Callable[[int], None] | None = None,
) -> dict[str, list[float]]:
    """Time each of ``methods`` on all ranks, turn by turn; returns the slowest rank's times.

    A turn before them warms up and is not timed.

    Args:
        comm: the same on all ranks, which begin together after a barrier.
        methods: by name; each takes the number of its turn, which is 0 for the warm-up.
        turns: number of timed turns.
        after_turn: cleans up after a turn, untimed.
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


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third; both ends of fewer than four."""
    if len(values) < 4:
        return min(values), max(values)
    first, _, third = statistics.quantiles(values, n=4)
    return first, third


def report(figures: Figures) -> None:
    """Send the figures to the benchmark; one rank calls this, once."""
    print(_RESULT + json.dumps(figures))


async def measured_by_workers(
    program: str,
    arguments: Sequence[object],
    topology: Topology,
    *,
    mode: Mode = "local",
    settings: Settings | None = None,
) -> Figures:
    """Run a benchmark's own file once per host, with ``inc``; returns the reported figures.

    Args:
        program: absolute path of the file.
        arguments: what :func:`worker_arguments` returns there, as text.
        topology: the network, launched for this call.
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
    raise EmulationError("the workers reported no figures: " + "; ".join(lines))
