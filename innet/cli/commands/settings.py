"""``innet settings``: lists the settings and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from innet.cli import options
from innet.cli.network_choice import BROKER_SETTING, BROKER_VARIABLE, chosen_settings
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from innet.settings import Settings

EXAMPLES = options.examples(
    "innet settings",
    "innet settings collectives",
    "innet settings transport --set transport.max_window=128",
    "innet settings --on lab --json",
)


def settings(
    prefix: Annotated[
        str,
        typer.Argument(
            metavar="[PREFIX]",
            help="Only settings with this prefix: [cyan]collectives[/], [cyan]transport.max[/]",
        ),
    ] = "",
    on: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The settings of this run", autocompletion=options.run_ids),
    ] = None,
    assignments: options.SetSettings = [],  # noqa: B006  # typer copies it
    as_json: options.AsJson = False,
) -> None:
    """List every setting: its type, default, value, and the source of the value.

    Values come from the defaults, the environment (INNET_BROKER) and [cyan]--set[/]; those of a
    run ([cyan]--on[/]) from its settings file.
    """
    if on is not None and assignments:
        raise typer.BadParameter(
            "the settings of a run cannot change; leave out --on", param_hint="'--set'"
        )
    chosen, origins = _of_the_command(assignments) if on is None else _of_the_run(on)
    listed = _list_settings(chosen, prefix, origins)
    if as_json:
        import json

        say(json.dumps([asdict(setting) for setting in listed], indent=2, ensure_ascii=False))
    else:
        _print(listed)


def _of_the_command(assignments: list[str]) -> tuple[Settings, dict[str, str]]:
    """The settings as ``innet run`` and ``innet up`` read them."""
    import os

    origins = {}
    if os.environ.get(BROKER_VARIABLE):
        origins[BROKER_SETTING] = f"environment ({BROKER_VARIABLE})"
    chosen = chosen_settings(assignments)
    return chosen, origins | {a.partition("=")[0].strip(): "option (--set)" for a in assignments}


def _of_the_run(run_id: str) -> tuple[Settings, dict[str, str]]:
    from innet.cluster.emulation.runs import find_run

    record = find_run(run_id)
    loaded = record.settings()
    return loaded, dict.fromkeys(_changed_settings(loaded), f"file ({record.settings_path})")


def _print(listed: list[_ListedSetting]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = open_console(highlight=False)
    for setting in listed:
        source = "" if setting.origin == "default" else f"  from: {setting.origin}"
        console.print(Text.assemble((setting.name, "bold"), " = ", (setting.value, "cyan"), source))
        about = f"{setting.takes}; default {setting.default}: {setting.description}"
        console.print(Padding(Text(about), (0, 0, 0, 4), expand=False))


@dataclass(frozen=True)
class _ListedSetting:
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


def _list_settings(
    settings: Settings, prefix: str = "", origins: Mapping[str, str] | None = None
) -> list[_ListedSetting]:
    """The settings whose names begin with ``prefix``, in the order of the schema.

    Args:
        origins: where values came from, by name; ``default`` for those that are not named.
    """
    from innet.assignments import unknown_setting
    from innet.settings import Settings, SettingsError
    from innet.suggestions import did_you_mean

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
                    _ListedSetting(
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


def _changed_settings(settings: Settings) -> list[str]:
    """The names of those that differ from their defaults."""
    from innet.settings import Settings

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
    from innet.quantities import format_size
    from innet.telemetry.broker_url import BrokerUrl

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
    if name == BROKER_SETTING and (broker := BrokerUrl.of_setting(value)) is not None:
        return str(broker)  # without its password
    return str(value)
