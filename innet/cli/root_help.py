"""The help of ``innet`` itself, in the style of typer, whose import takes 150 ms of CPU time."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from innet.cli.command_table import COMMANDS, EXAMPLES, ROOT_OPTIONS, SUMMARY


def print_root_help() -> None:
    """Print the options, and the commands under their headings."""
    console = Console(highlight=False)
    usage = "[bold][yellow]Usage: [/]innet \\[OPTIONS] COMMAND \\[ARGS]...[/]"
    console.print(Padding(Text.from_markup(usage), 1))
    console.print(Padding(SUMMARY, (0, 1, 1, 1)))
    _print_panel("Options", _options())
    for panel in dict.fromkeys(entry.panel for entry in COMMANDS):
        _print_panel(panel, _commands(panel))
    shown = ("[bold]Examples[/]", *(f"[dim]$[/] {command}" for command in EXAMPLES))
    console.print(Padding("\n".join(shown), 1))


def _print_panel(title: str, table: Table) -> None:
    console = Console(highlight=False)
    console.print(Panel(table, border_style="dim", title=title, title_align="left"))


def _options() -> Table:
    table = _table()
    for option in ROOT_OPTIONS:
        text = Text(option.help)
        if option.variable:
            text.append(f" [env var: {option.variable}]", style="dim yellow")
        kind = Text.from_markup("[dim]<[/]bool[dim]>[/]", style="bold yellow")
        long = Text(option.long, style="bold cyan")
        table.add_row(long, Text(option.short, style="bold green"), kind, text)
    return table


def _commands(panel: str) -> Table:
    table = _table()
    width = max(len(entry.name) for entry in COMMANDS)
    table.add_column(style="bold cyan", no_wrap=True, width=width)
    table.add_column(ratio=10)
    for entry in COMMANDS:
        if entry.panel == panel:
            table.add_row(entry.name, entry.help)
    return table


def _table() -> Table:
    return Table(show_header=False, expand=True, box=None, pad_edge=False, padding=(0, 1))
