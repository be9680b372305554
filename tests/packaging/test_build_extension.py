"""The build from source reports its progress, and installs what the extras name."""

from __future__ import annotations

import runpy
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.docs.command_lines import ROOT

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "build_extension.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def reports(*printed: tuple[float, str], bindings: int = 0) -> list[str]:
    """The reports for lines of a build, each with the second at which the build printed it."""
    progress = SCRIPT["Progress"](bindings)
    found = (progress.report(line, at_s) for at_s, line in printed)
    return [report.strip() for report in found if report]


def compiled(numbers: range, total: int, folder: str = "x.dir") -> list[tuple[float, str]]:
    """Lines for files of a folder that ninja compiled, one each second."""
    return [(float(n), f"  [{n}/{total}] Building {folder}/{n}.o\n") for n in numbers]


def test_a_report_shows_progress_and_remaining_time() -> None:
    said = reports(*compiled(range(1, 61), 240))
    assert said[-1] == "60 of 240 files compiled in 60 s; about 3 minutes left at this pace"
    assert reports(*compiled(range(1, 91), 100))[-1].endswith(
        "; less than a minute left at this pace"
    )


def test_remaining_bindings_have_a_higher_weight() -> None:
    lines = compiled(range(1, 61), 120)
    assert "about 1 minute left" in reports(*lines)[-1]
    assert "about 5 minutes left" in reports(*lines, bindings=60)[-1]
    done = compiled(range(1, 61), 120, "innet/_native/CMakeFiles/_core.dir")
    assert "less than a minute left" in reports(*done, bindings=60)[-1]


def test_reports_come_every_fifteen_seconds_and_not_at_the_end() -> None:
    said = [int(report.split()[0]) for report in reports(*compiled(range(101), 100))]
    assert said == [15, 30, 45, 60, 75, 90]


@pytest.mark.parametrize("line", ["*** Configuring CMake...", "[0/2] Re-checking", ""])
def test_lines_without_a_file_count_are_ignored(line: str) -> None:
    assert reports((100, line)) == []


def test_extras_of_extras_are_installed() -> None:
    required = SCRIPT["requirements"](PROJECT, ["dev", "demo"])
    names = {Requirement(line).name for line in required}
    assert {"numpy", "torch", "matplotlib", "scapy", "uvicorn", "ruff"} <= names
    assert "innet" not in names
    assert SCRIPT["requirements"](PROJECT, []) == PROJECT["dependencies"]
