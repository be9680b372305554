"""docs/telemetry.md names all that is published."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from innet.telemetry import commands, messages

DOCUMENT = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
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
