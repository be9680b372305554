"""Every relative link of a page leads to a file that exists, and every anchor to a heading."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.command_lines import ROOT

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`[^`\n]*`")
_LINKED_HEADING = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def _pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]


PAGES = _pages()


def _without_code(text: str) -> str:
    """The text without fenced and indented blocks."""
    lines = _FENCED.sub("", text).splitlines()
    return "\n".join(line for line in lines if not line.startswith("    "))


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    anchors: set[str] = set()
    for line in _without_code(page.read_text()).splitlines():
        if not (found := re.match(r"#+ (.*)", line)):
            continue
        heading = _LINKED_HEADING.sub(r"\1", found[1]).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number = 0
        while (anchor := f"{slug}-{number}" if number else slug) in anchors:
            number += 1
        anchors.add(anchor)
    return anchors


def broken_links(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead nowhere."""
    broken = []
    for target in _LINK.findall(_CODE_SPAN.sub("", _without_code(text))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (
            anchor and file.suffix == ".md" and anchor not in anchors_of(file)
        ):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text()) == []


def test_a_broken_link_and_a_broken_anchor_are_found() -> None:
    text = "[a](nowhere.md) [b](README.md#no-such-heading) [c](README.md#two-commands)"
    assert broken_links(ROOT / "CONTRIBUTING.md", text) == [
        "nowhere.md",
        "README.md#no-such-heading",
    ]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_the_index_names_every_page(page: Path) -> None:
    index = ROOT / "docs" / "README.md"
    assert page == index or f"]({page.relative_to(ROOT / 'docs')})" in index.read_text()


_SOURCE_REFERENCE = re.compile(r"\bdocs/([\w/-]+\.md)(?:#([\w-]+))?")


def test_the_table_of_decisions_has_every_one() -> None:
    page = (ROOT / "docs" / "decisions.md").read_text()
    table = page[page.index("| area |") : page.index("\n## ")]
    listed: set[int] = set()
    for first, last in re.findall(r"\b(\d+)(?:\u2013(\d+))?", table):
        listed |= set(range(int(first), int(last or first) + 1))
    decided = {int(number) for number in re.findall(r"^## (\d+)\.", page, re.MULTILINE)}
    assert decided - listed == set()


def test_every_page_that_the_sources_name_exists() -> None:
    listed = subprocess.run(
        [
            "git",
            "grep",
            "-nE",
            r"docs/[a-z/-]+\.md",
            "--",
            ":!*.md",
            ":!mkdocs.yml",
            ":!scripts/reference_pages.py",
            ":!tests/docs",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    missing = []
    for line in listed.stdout.splitlines():
        for name, anchor in _SOURCE_REFERENCE.findall(line):
            page = ROOT / "docs" / name
            if not page.exists() or (anchor and anchor not in anchors_of(page)):
                missing.append(line)
    assert missing == []


_FOLDERS = "apps|benchmarks|innet|scripts|switch_emulator|tests|topologies|transport|workloads"
_PATH = re.compile(rf"`((?:{_FOLDERS})/[\w./-]+)(?:::\w+)?`")
_MODULE = re.compile(r"`(innet(?:\.[a-z_]+)+)`")


def _is_module(name: str) -> bool:
    """Whether a dotted name is a module, or could be a name within one."""
    *folders, last = name.split(".")
    package = ROOT.joinpath(*folders)
    return any((package / f"{last}{end}").exists() for end in ("", ".py", ".pyi")) or (
        package.with_suffix(".py").exists() or (package / "__init__.py").exists()
    )


def _is_path(path: Path) -> bool:
    """Whether there is such a file or folder, or C++ files of that name."""
    return path.exists() or any(path.parent.glob(f"{path.name}.?pp"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_and_module_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    paths = [path for path in _PATH.findall(text) if not _is_path(ROOT / path)]
    modules = [name for name in _MODULE.findall(text) if not _is_module(name)]
    assert paths + modules == []


_CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
_TABLE_ROWS = [line.replace("NAME", "run") for line in _CONTRIBUTING if line[:1] == "|"]


def _places(row: str) -> list[Path]:
    """The paths in a row, from the root or from the package."""
    paths = re.findall(r"`(\w+/[\w/]*[\w.]+)/?`", row)
    return [
        next((p for p in (ROOT / path, ROOT / "innet" / path) if p.exists()), ROOT / path)
        for path in paths
    ]


def test_every_path_in_the_tables_of_contributing_exists() -> None:
    places = [place for row in _TABLE_ROWS for place in _places(row)]
    assert len(places) > 20
    assert [place for place in places if not place.exists()] == []


@pytest.mark.parametrize(
    "row",
    _TABLE_ROWS[_TABLE_ROWS.index("| to add | change |") + 2 :],
    ids=lambda row: row.split("|")[1].strip(),
)
def test_names_in_rows_of_contributing_are_in_their_files(row: str) -> None:
    files = {
        file
        for place in _places(row)
        for file in (*place.parent.glob("*"), *place.glob("*"))
        if file == place or place.is_dir() or f"`{file.name}`" in row
    }
    text = "\n".join(file.read_text() for file in files if file.suffix in _SOURCES)
    names = re.findall(r"`@?(?:\w+\.)?([A-Za-z_]{4,})(?:\(\))?`", row)
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


_SOURCES = (".py", ".cpp", ".hpp", ".md")
