"""The build from source says how far it is, and installs what the extras name."""

from __future__ import annotations

import runpy
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.docs.command_lines import ROOT

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "build_extension.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def reports(*printed: tuple[float, str]) -> list[str]:
    """What is reported of lines that were printed at these seconds."""
    progress = SCRIPT["Progress"]()
    found = (progress.report(line, at_s) for at_s, line in printed)
    return [report.strip() for report in found if report]


def test_a_report_says_what_is_done_and_how_long_the_rest_takes() -> None:
    assert reports((60, "  [54/216] Building CXX object node.cpp.o\n")) == [
        "54 of 216 files compiled in 60 s; about 3 minutes left at this pace"
    ]
    assert reports((90, "[200/216] Building\n"))[0].endswith("less than a minute left at this pace")


def test_reports_come_every_fifteen_seconds_and_not_at_the_end() -> None:
    lines = [(float(at), f"[{at}/100] Building") for at in range(101)]
    said = [int(report.split()[0]) for report in reports(*lines)]
    assert said == [15, 30, 45, 60, 75, 90]


@pytest.mark.parametrize("line", ["*** Configuring CMake...", "[0/2] Re-checking", ""])
def test_a_line_that_counts_no_file_is_no_report(line: str) -> None:
    assert reports((100, line)) == []


def test_extras_of_extras_are_installed() -> None:
    required = SCRIPT["requirements"](PROJECT, ["dev", "demo"])
    names = {Requirement(line).name for line in required}
    assert {"numpy", "torch", "matplotlib", "scapy", "uvicorn", "ruff"} <= names
    assert "innet" not in names
    assert SCRIPT["requirements"](PROJECT, []) == PROJECT["dependencies"]
