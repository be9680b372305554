"""``innet settings``: what can be set, and what it is set to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import open_console, say

if TYPE_CHECKING:
    from innet.cli.settings_list import ListedSetting
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
            help="Only settings whose names begin so: [cyan]collectives[/], [cyan]transport.max[/]",
            show_default=False,
        ),
    ] = "",
    on: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The settings of this run", autocompletion=options.run_ids),
    ] = None,
    assignments: options.SetSettings = [],  # noqa: B006  # typer copies it
    as_json: options.AsJson = False,
) -> None:
    """List every setting: what it takes, its default, its value, and where that came from.

    Values come from the defaults, the environment (INNET_BROKER) and [cyan]--set[/]; those of a
    run ([cyan]--on[/]) from its settings file.
    """
    from innet.cli.settings_list import list_settings

    if on is not None and assignments:
        raise typer.BadParameter("a run keeps its settings; leave out --on", param_hint="'--set'")
    chosen, origins = _of_the_command(assignments) if on is None else _of_the_run(on)
    listed = list_settings(chosen, prefix, origins)
    if as_json:
        import json
        from dataclasses import asdict

        say(json.dumps([asdict(setting) for setting in listed], indent=2, ensure_ascii=False))
    else:
        _print(listed)


def _of_the_command(assignments: list[str]) -> tuple[Settings, dict[str, str]]:
    """As ``innet run`` and ``innet up`` read them."""
    import os

    from innet.cli.broker_choice import BROKER_SETTING, BROKER_VARIABLE
    from innet.cli.network_choice import chosen_settings

    origins = {}
    if os.environ.get(BROKER_VARIABLE):
        origins[BROKER_SETTING] = f"environment ({BROKER_VARIABLE})"
    chosen = chosen_settings(assignments)
    return chosen, origins | {a.partition("=")[0].strip(): "option (--set)" for a in assignments}


def _of_the_run(run_id: str) -> tuple[Settings, dict[str, str]]:
    from innet.cli.settings_list import changed_settings
    from innet.cluster.emulation.runs import find_run
    from innet.settings import SETTINGS_NAME, Settings

    path = find_run(run_id).run_dir / SETTINGS_NAME
    loaded = Settings.load(path)
    return loaded, dict.fromkeys(changed_settings(loaded), f"file ({path})")


def _print(listed: list[ListedSetting]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console = open_console(highlight=False)
    for setting in listed:
        source = "" if setting.origin == "default" else f"  from: {setting.origin}"
        console.print(Text.assemble((setting.name, "bold"), " = ", (setting.value, "cyan"), source))
        about = f"{setting.takes}; default {setting.default}: {setting.description}"
        console.print(Padding(Text(about), (0, 0, 0, 4), expand=False))
