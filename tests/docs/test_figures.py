"""The figures of the pages are those that plans, bounds and the simulator give today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.command_lines import ROOT

IMAGES = ROOT / "docs" / "images"
SIMULATED = ("exchange.svg",)
"""Packets at times that change with the engine: any number is right."""
NUMBER = re.compile(r"[\d.]+")


def test_the_committed_figures_equal_those_that_the_code_draws(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "figures", tmp_path], check=True)
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in IMAGES.glob("*.svg")}
    assert sorted(drawn) == sorted(committed)
    for name in SIMULATED:
        drawn[name], committed[name] = (NUMBER.sub("0", f[name]) for f in (drawn, committed))
    changed = [name for name in drawn if drawn[name] != committed[name]]
    assert not changed, "`.venv/bin/python scripts/figures` draws them again"


def test_every_figure_is_shown_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"([\w-]+\.svg)\)", page.read_text())}
    assert {path.name for path in IMAGES.glob("*.svg")} == shown
