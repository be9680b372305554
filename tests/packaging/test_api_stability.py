"""The names that docs/api-stability.md promises are those that the packages offer."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from innet.errors import InnetError

PAGE = Path(__file__).parents[2] / "docs" / "api-stability.md"
ROW = re.compile(r"^\| `(innet[\w.]*)` \| (.+) \|$", re.MULTILINE)
PROMISED = {
    module: re.findall(r"`(\w+)`", names) for module, names in ROW.findall(PAGE.read_text())
}


@pytest.mark.parametrize("name", PROMISED)
def test_a_module_exports_exactly_its_stable_names(name: str) -> None:
    if name.startswith("innet.torch_backend."):
        pytest.importorskip("torch")
    if name == "innet.ray":
        pytest.importorskip("ray.train", reason="needs innet[ray]", exc_type=ImportError)
    module = importlib.import_module(name)
    errors = {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, InnetError)
    }
    assert PROMISED[name] == sorted(getattr(module, "__all__", errors))
    assert [name for name in PROMISED[name] if not hasattr(module, name)] == []


def test_the_names_of_innet_are_stable() -> None:
    assert "innet" in PROMISED
