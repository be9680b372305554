"""All benchmark scripts have the same last line, exit codes and deadline."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from innet.errors import EmulationError
from innet.lab.compare.measurement import Comparison
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps
from shared.benchmark import Benchmark, Figures, argument_parser, computed, measured, quantity


def benchmark(*arguments: str, deadline_s: float = 60) -> Benchmark:
    return Benchmark("test", argument_parser("").parse_args(arguments), deadline_s)


async def found(_progress: ProgressBar) -> Figures:
    print("something for people")
    return {"inc_s": 0.5}


def test_the_last_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        benchmark("--json").run(found)
    assert exit_info.value.code == 0
    *_, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    assert figures["inc_s"] == 0.5
    assert figures["machine"]["cores"] >= 1


def test_figures_are_saved_to_the_given_path(tmp_path: Path) -> None:
    place = tmp_path / "results" / "today"
    with pytest.raises(SystemExit):
        benchmark("--save", str(place)).run(found)
    saved = json.loads((place / "test.figures.json").read_text())
    assert saved["inc_s"] == 0.5
    assert saved["machine"]["cores"] >= 1


def test_a_hung_worker_ends_at_the_deadline_with_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def hang(_progress: ProgressBar) -> Figures:
        await asyncio.Event().wait()
        return {}

    with pytest.raises(SystemExit) as exit_info:
        benchmark("--json", deadline_s=0.01).run(hang)
    assert exit_info.value.code == 1
    captured = capsys.readouterr()
    assert "not done after" in captured.err
    assert captured.out == "", "no figures that a script could take for a result"


def test_a_terminated_benchmark_ends_its_processes() -> None:
    ended = asyncio.Event()

    async def be_killed(_progress: ProgressBar) -> Figures:
        signal.raise_signal(signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as exit_info:
            benchmark().run(be_killed)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert exit_info.value.code == 130
    assert ended.is_set()


def test_wrong_results_give_no_figures(comparison: Comparison) -> None:
    wrong = comparison.measurements[0].model_copy(update={"correct": False})
    spoiled = comparison.model_copy(update={"measurements": [wrong]})
    with pytest.raises(EmulationError, match="inc gave wrong results"):
        measured(spoiled, ("inc",), wrong.size_bytes)


def test_a_method_without_figures_states_the_reason(comparison: Comparison) -> None:
    with pytest.raises(EmulationError, match="ps was not measured: rank 3 of innet has left"):
        measured(comparison, ("inc", "ps"), 1 << 20)


def test_quantities_on_the_command_line_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argument_parser("")
    parser.add_argument("--rate", type=quantity(parse_rate_bps))
    assert parser.parse_args(["--rate", "200mbit"]).rate == 200e6
    with pytest.raises(SystemExit):
        parser.parse_args(["--rate", "fast"])
    assert "expected a rate with a unit" in capsys.readouterr().err


def test_ctrl_c_ends_a_computation_and_prints_what_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = threading.Event()
    run = benchmark()

    def compute() -> Figures:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            while True:
                pass
        finally:
            ended.set()

    async def measure(_progress: ProgressBar) -> Figures:
        run.done["first_s"] = 0.5
        return await computed(compute)

    with pytest.raises(SystemExit) as exit_info:
        run.run(measure)
    assert exit_info.value.code == 130
    assert ended.is_set()
    assert capsys.readouterr().out == "first_s: 0.5\n"


async def test_the_error_of_a_computation_is_raised() -> None:
    assert await computed(lambda: 7) == 7
    with pytest.raises(EmulationError, match="broken"):
        await computed(lambda: fail("broken"))


def fail(text: str) -> None:
    raise EmulationError(text)
