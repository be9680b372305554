"""The comparison with other systems names all that innet has, and its figures are measured ones."""

from __future__ import annotations

import re

from tests.docs.command_lines import ROOT

PAGE = (ROOT / "docs" / "beside.md").read_text().partition("## Sources")[0]
ELSEWHERE = {"releasing.md"}
"""How-to guides of maintainers alone."""
OF_OTHERS = {"214"}
"""Numbers that are no figures: of a decision."""


def test_each_capability_with_a_how_to_guide_is_named() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    guides = index.partition("## How-to guides")[2].partition("## Reference")[0]
    pages = set(re.findall(r"\]\(([\w-]+\.md)\)", guides)) - ELSEWHERE
    assert len(pages) > 20
    assert {page for page in pages if f"({page}" not in PAGE} == set()


def test_each_figure_of_innet_is_one_of_the_benchmarks() -> None:
    measured = (ROOT / "benchmarks" / "README.md").read_text().replace(",", "")
    figures = set(re.findall(r"(?<![\w.,])(?:\d+(?:[.,]\d+)+|\d{3,4})(?![\w.]| hosts| Gbit)", PAGE))
    figures -= OF_OTHERS
    assert len(figures) > 20
    assert {figure for figure in figures if figure.replace(",", "") not in measured} == set()
