"""Each setting with what it takes, its default, its value, and where that came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from innet.assignments import unknown_setting
from innet.quantities import format_size
from innet.settings import Settings, SettingsError
from innet.suggestions import did_you_mean
from innet.telemetry.broker_url import BrokerUrl

_BROKER = "telemetry.broker"


@dataclass(frozen=True)
class ListedSetting:
    """One setting, for people.

    Attributes:
        name: such as ``transport.max_window``.
        takes: its type and limits, in words.
        default: as ``--set`` takes it.
        value: likewise; a broker's without its password.
        origin: where the value came from.
        description: what it is for.
    """

    name: str
    takes: str
    default: str
    value: str
    origin: str
    description: str


def list_settings(
    settings: Settings, prefix: str = "", origins: Mapping[str, str] | None = None
) -> list[ListedSetting]:
    """The settings whose names begin with ``prefix``, in the order of the schema.

    Args:
        settings: with the values.
        origins: where values came from, by name; ``default`` for those that are not named.

    Raises:
        SettingsError: no name begins so.
    """
    schema = Settings.model_json_schema()
    values, defaults = settings.model_dump(), Settings().model_dump()
    listed = []
    for section, reference in schema["properties"].items():
        fields = schema["$defs"][reference["$ref"].rpartition("/")[2]]["properties"]
        for field, described in fields.items():
            name = f"{section}.{field}"
            if name.startswith(prefix):
                origin = (origins or {}).get(name, "default")
                listed.append(
                    ListedSetting(
                        name=name,
                        takes=_takes(field, described),
                        default=_shown(name, defaults[section][field]),
                        value=_shown(name, values[section][field]),
                        origin=origin,
                        description=described.get("description", ""),
                    )
                )
    if not listed:
        if "." not in prefix and (hint := did_you_mean(prefix, values)):
            raise SettingsError(f"no setting begins with {prefix!r}{hint}")
        raise SettingsError(unknown_setting(prefix, values))
    return listed


def changed_settings(settings: Settings) -> list[str]:
    """The names of those that differ from their defaults."""
    values, defaults = settings.model_dump(), Settings().model_dump()
    return [
        f"{section}.{field}"
        for section, fields in values.items()
        for field, value in fields.items()
        if value != defaults[section][field]
    ]


def _takes(field: str, described: Mapping[str, Any]) -> str:
    """A JSON schema in words, such as ``time in seconds above 0``."""
    if "anyOf" in described:
        return ", or ".join(_takes(field, choice) for choice in described["anyOf"])
    if "enum" in described:
        return ", ".join(described["enum"])
    kinds = {
        "array": "list, separated by commas",
        "boolean": "true or false",
        "integer": "whole number",
        "null": "none",
        "number": "number",
        "string": "text",
    }
    kind = kinds[described["type"]]
    is_number = described["type"] in ("integer", "number")
    if is_number and field.endswith("_bytes"):
        kind = "size"
    elif is_number and field.endswith("_s"):
        kind = "time in seconds"
    return kind + _limits(described)


def _limits(described: Mapping[str, Any]) -> str:
    if "minimum" in described and "maximum" in described:
        return f" from {described['minimum']:g} to {described['maximum']:g}"
    words = {"exclusiveMinimum": "above", "minimum": "from", "maximum": "up to"}
    return "".join(f" {word} {described[key]:g}" for key, word in words.items() if key in described)


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "(none)"
    if name.endswith("_bytes"):
        return format_size(value)
    if isinstance(value, float):
        return f"{value:g}"
    if name == _BROKER and (broker := BrokerUrl.of_setting(value)) is not None:
        return str(broker)  # without its password
    return str(value)
