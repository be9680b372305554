"""Settings as users write them: ``section.name=value``, with units and near matches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from innet.errors import InnetError
from innet.quantities import DURATION_UNITS, QuantityError, parse_duration_s, parse_size_bytes
from innet.suggestions import did_you_mean

_LISTED = "`innet settings` lists all"
_TIME_EXPECTED = f"seconds, such as 1.5, or a time with a unit, such as 250ms ({DURATION_UNITS})"


class SettingsError(InnetError):
    """A setting is unknown or has a value that it cannot take."""


def split_assignment(
    assignment: str, known: Mapping[str, Mapping[str, Any]]
) -> tuple[str, str, str]:
    """Section, name and value of ``transport.max_window=128``."""
    key, equals, value = assignment.partition("=")
    # The message shows nothing but the name: the rest may be a password in the wrong place.
    shown = _name_in(assignment)
    section, _, name = key.strip().partition(".")
    if name not in known.get(section, {}):
        raise SettingsError(unknown_setting(shown, known))
    if not equals:
        raise SettingsError(f"{shown} has no value; write {shown}=VALUE")
    return section, name, value.strip()


def unknown_setting(name: str, known: Mapping[str, Mapping[str, Any]]) -> str:
    """A sentence that says so, with the setting that is probably meant."""
    full_names = {f"{section}.{field}": field for section in known for field in known[section]}
    hint = did_you_mean(name, full_names)
    if not hint:
        fields = {field: full for full, field in full_names.items()}
        last = name.rpartition(".")[2]
        meant = did_you_mean(last, fields)
        hint = next((f"; did you mean {fields[f]!r}?" for f in fields if repr(f) in meant), "")
    return f"there is no setting {name!r}{hint}{'' if hint.endswith('?') else ';'} {_LISTED}"


def given_value(value: object, field: str, optional: bool) -> object:
    """A value of text, without its unit; others as they are.

    Args:
        field: its name, which ends with its unit: ``_s`` or ``_bytes``.
        optional: whether ``none`` stands for ``None``.

    Raises:
        ValueError: it is no quantity of this kind.
    """
    if not isinstance(value, str):
        return value
    if optional and value.lower() == "none":
        return None
    if field.endswith("_bytes"):
        return parse_size_bytes(value)
    if field.endswith("_s"):
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return parse_duration_s(value)
        except QuantityError as error:
            raise QuantityError(_TIME_EXPECTED, error.found) from None
    return value


def _name_in(assignment: str) -> str:
    found = re.match(r"[\w.\s-]*", assignment)
    return "" if found is None else found[0].strip()
