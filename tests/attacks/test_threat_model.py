"""The page on the threat model names a test for each of its lines, and every test of an attack."""

from __future__ import annotations

import ast
import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "threat-model.md").read_text()
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def names_of_tests(path: str) -> set[str]:
    """The names of the test functions in a file."""
    tree = ast.parse((_ROOT / path).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
    return {name for name in found if name.startswith("test_")}


def test_each_row_names_existing_tests() -> None:
    tables = _PAGE.split("| attempt | result | tests |\n|---|---|---|\n")[1:]
    for row in (row for table in tables for row in table.partition("\n\n")[0].splitlines()):
        named = _TEST.findall(row)
        assert named, f"no test in: {row}"
        for path, name in named:
            assert names_of_tests(path), path
            assert not name or name in names_of_tests(path), f"{path}::{name}"


def test_every_test_file_of_attacks_is_on_the_page() -> None:
    files = {f"tests/attacks/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    files.remove(f"tests/attacks/{Path(__file__).name}")
    assert files == {path for path, _ in _TEST.findall(_PAGE) if path.startswith("tests/attacks/")}
