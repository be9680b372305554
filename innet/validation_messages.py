"""Messages for values that a schema refuses (place, expected and found value), and strict models.

Files, settings and command lines all take their messages for pydantic's findings from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from innet.quantities import shown


class StrictModel(BaseModel):
    """The base of frozen models: an unknown key is an error, and errors show no values."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


_EXPECTED: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "string_type": lambda _: "text (put it in quotes if it looks like a number)",
    "int_type": lambda _: "a whole number",
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "float_type": lambda _: "a number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bytes_type": lambda _: "bytes",
    "is_instance_of": lambda c: f"a {c['class']}",
    "list_type": lambda _: "a list",
    "tuple_type": lambda _: "a list",
    "dict_type": lambda _: "a mapping of keys to values",
    "model_type": lambda _: "a mapping of keys to values",
    "model_attributes_type": lambda _: "a mapping of keys to values",
    "union_tag_not_found": lambda _: "a mapping with the key 'kind'",
    "bool_type": lambda _: "true or false",
    "bool_parsing": lambda _: "true or false",
    "literal_error": lambda c: str(c["expected"]),
    "enum": lambda c: str(c["expected"]),
    "greater_than": lambda c: f"a number above {c['gt']:g}",
    "greater_than_equal": lambda c: f"at least {c['ge']:g}",
    "less_than": lambda c: f"a number below {c['lt']:g}",
    "less_than_equal": lambda c: f"at most {c['le']:g}",
    "multiple_of": lambda c: f"a multiple of {c['multiple_of']}",
}


_MOST_LISTED: Final = 1000
"""Findings that are made into objects, of 1 KB each; a hostile document has millions."""


def at_most(entries: int) -> BeforeValidator:
    """Refuses a mapping with more entries, before it finds something wrong in each.

    Pydantic checks ``max_length`` of a mapping last. Of a list it checks it first; large ones have
    ``FailFast`` besides.
    """

    def check(value: object) -> object:
        if isinstance(value, Mapping) and len(value) > entries:
            raise ValueError(f"expected at most {entries} entries, found {len(value)}")
        return value

    return BeforeValidator(check)


def message_of(error: ErrorDetails) -> str:
    """One sentence about one finding, without its place."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return f"expected the key {error['loc'][-1]!r}, which is missing"
    if kind == "union_tag_invalid":
        return f"expected 'kind' to be one of {context['expected_tags']}, found {context['tag']!r}"
    if kind in ("too_short", "too_long"):
        limit = "at least" if kind == "too_short" else "at most"
        length = context["min_length" if kind == "too_short" else "max_length"]
        return f"expected {limit} {length} entries, found {context['actual_length']}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind](context)}, found {found(error['input'])}"
    return error["msg"]


def value_message(findings: Sequence[ErrorDetails], value: object) -> str:
    """One sentence about a single value, all of whose forms a schema refuses."""
    if findings[0]["type"] not in _EXPECTED:
        return message_of(findings[0])
    forms = [_EXPECTED[each["type"]](each.get("ctx", {})) for each in findings]
    return f"expected {' or '.join(forms)}, found {found(value)}"


def first_message(error: ValidationError) -> str:
    """The first finding with the dotted path to its place; of very many, their number."""
    count = error.error_count()
    if count > _MOST_LISTED:
        return f"{count} values are wrong"
    first = error.errors(include_url=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return f"{place}: {message_of(first)}" if place else message_of(first)


def found(value: object) -> str:
    """A value for an error message: scalars in full, collections by their kind."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return "a list"
    return shown(value)
