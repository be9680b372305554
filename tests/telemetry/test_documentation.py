"""docs/telemetry.md names all that is published."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from innet.telemetry import commands, messages

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "telemetry.md").read_text()
MODELS = [
    model
    for module in (messages, commands)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and model.model_fields
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_documented(model: type[BaseModel]) -> None:
    assert [field for field in model.model_fields if field not in DOCUMENT] == []


@pytest.mark.parametrize(
    "values",
    [messages.EventKind, messages.State, commands.Reason],
    ids=["event", "state", "reason"],
)
def test_every_word_is_documented(values: object) -> None:
    assert [word for word in get_args(values) if f"`{word}`" not in DOCUMENT] == []


def test_page_of_counters_is_what_the_node_describes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "counters-page.py"))
    assert script["PAGE"].read_text() == script["page"](), "run scripts/counters-page.py"
