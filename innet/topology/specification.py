"""Base of the models that describe files: strict, closed, and with errors that name the line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from innet.errors import FileError
from innet.suggestions import did_you_mean
from innet.topology.located_yaml import LocatedDocument, PathStep
from innet.validation_messages import message_of


def _hyphenated(field_name: str) -> str:
    return field_name.replace("_", "-")


class Specification(BaseModel):
    """A mapping in a file. Its keys are the field names, with ``-`` for ``_``, and no others."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=_hyphenated,
        allow_inf_nan=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = [info.alias or name for name, info in cls.model_fields.items()]
            for key in data:
                if key not in known:
                    hint = did_you_mean(str(key), known) or f"; expected {_either(known)}"
                    raise PydanticCustomError(
                        "unknown_key", "{text}", {"key": key, "text": f"unknown key {key!r}{hint}"}
                    )
        return data

    def given(self) -> dict[str, Any]:
        """The values that were written down, by field name, without those left to defaults."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def optional(description: str, **constraints: Any) -> Any:
    """A key that may be left out.

    Its value is then ``None`` whatever its type says, and it is missing from
    :meth:`Specification.given`; a ``null`` in the file is still refused.
    """
    return Field(default=None, description=description, **constraints)


SpecificationT = TypeVar("SpecificationT", bound=Specification)


def validated(specification: type[SpecificationT], document: LocatedDocument) -> SpecificationT:
    """Validate a parsed document.

    Raises:
        FileError: of the document's kind: the first problem of the text, with its file and line.
    """
    try:
        return specification.model_validate(document.data)
    except ValidationError as error:
        problems = [_located(details, document) for details in error.errors(include_url=False)]
        problems.sort(key=lambda problem: problem.line or 0)
        raise problems[0] from None


def _located(details: ErrorDetails, document: LocatedDocument) -> FileError:
    steps = _steps_in(document.data, details["loc"])
    place = ".".join(str(step) for step in steps)
    message = message_of(details)
    if details["type"] == "unknown_key":
        steps = (*steps, details["ctx"]["key"])
    return document.error(f"{place}: {message}" if place else message, *steps)


def _steps_in(data: Any, loc: Sequence[PathStep]) -> tuple[PathStep, ...]:
    """The part of a pydantic location that exists in the data.

    pydantic puts the tag of a discriminated union (``host``, ``leaf-spine``) between the steps, and
    ``[key]`` behind a key that is itself wrong.
    """
    steps: list[PathStep] = []
    for step in loc:
        if isinstance(data, Mapping) and step == data.get("kind"):
            continue
        if isinstance(data, Mapping) and step in data:
            data = data[str(step)]
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            break
        steps.append(step)
    return tuple(steps)


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "nothing"
