"""Benchmarks whose own file is the program of their ranks."""

from pathlib import Path

import pytest

import shared.benchmark
from innet.errors import EmulationError
from innet.topology import load_topology
from shared.benchmark import measured_by_workers

_REPORTING = """
import os
from shared.benchmark import report, worker_arguments
if os.environ["RANK"] == "0":
    print("some other line")
    report({"given": worker_arguments()})
"""


@pytest.fixture(autouse=True)
def _finds_shared_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(shared.benchmark.__file__).parents[1]))


async def _run(program: str, folder: Path) -> object:
    path = folder / "benchmark.py"
    path.write_text(program)
    return await measured_by_workers(str(path), (7, "--quick"), load_topology("star:2"))


async def test_ranks_get_the_arguments_and_one_rank_reports(tmp_path: Path) -> None:
    assert await _run(_REPORTING, tmp_path) == {"given": ["7", "--quick"]}


async def test_an_error_shows_the_output_of_the_ranks(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match="no figures: hello"):
        await _run("print('hello')", tmp_path)
