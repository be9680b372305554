"""The documentation site: every page has its place, and the reference leaves nothing out.

Dead links, and anything loaded from another host, end ``make docs`` itself.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer.main

import innet
import innet.errors
from innet.cli.main import app
from innet.settings import Settings
from tests.docs.command_lines import ROOT
from tests.docs.test_links import PAGES

REFERENCE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "reference_pages.py"))
INNET = typer.main.get_command(app)


@cache
def page(name: str) -> str:
    """A generated page of the reference."""
    text: str = REFERENCE["PAGES"][f"docs/reference/{name}.md"]()
    return text


def test_every_page_is_once_in_the_navigation() -> None:
    _, _, navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    named = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    committed = [str(path.relative_to(ROOT)) for path in PAGES]
    assert sorted(named) == sorted([*committed, *REFERENCE["PAGES"]])


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for below in getattr(command, "commands", {}).values():
        yield f"{name} {below.name}", below
        yield from commands(below, f"{name} {below.name}")


@pytest.mark.parametrize(("name", "command"), list(commands(INNET, "innet")))
def test_the_reference_has_every_command_with_its_options_and_examples(
    name: str, command: Any
) -> None:
    _, _, rest = page("command-line").partition(f"\n### {name}\n")
    section = re.split(r"\n###? ", rest)[0]
    assert section
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            assert f"`{option.opts[0]}`" in section
    for example in re.findall(r"^\[dim\]\$\[/\] (.*)$", command.epilog or "", re.MULTILINE):
        assert example in section
    assert "[/" not in section, "a mark of rich is left"


def test_the_reference_has_every_setting() -> None:
    text = page("settings")
    for section, fields in Settings().model_dump().items():
        for field in fields:
            assert f"| `{section}.{field}` |" in text


@pytest.mark.parametrize(("name", "key"), [("topology", "corrupt"), ("workload", "repetitions")])
def test_the_reference_has_the_keys_of_files(name: str, key: str) -> None:
    text = page(name)
    headings = {heading.lower() for heading in re.findall(r"^## (\S+)$", text, re.MULTILINE)}
    assert f"| `{key}` |" in text
    assert set(re.findall(r"\]\(#(\w+)\)", text)) <= headings


def test_the_reference_has_every_public_name_where_it_is_defined() -> None:
    named = re.findall(r"^::: ([\w.]+)\.(\w+)$", page("python"), re.MULTILINE)
    assert sorted(name for _, name in named) == sorted(innet.__all__)
    for module, name in named:
        assert module.startswith("innet."), f"innet.{name} comes from elsewhere: {module}"


def test_the_reference_has_every_error() -> None:
    text = page("errors")
    for name, error in vars(innet.errors).items():
        if isinstance(error, type) and issubclass(error, innet.errors.InnetError):
            assert re.search(rf"^ *{name}$", text, re.MULTILINE)
