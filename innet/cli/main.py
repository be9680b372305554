"""The ``innet`` command for typer; ``command_group`` adds the subcommands as they are needed."""

from __future__ import annotations

from typing import Annotated

import typer

import innet
from innet.cli.command_group import CommandGroup
from innet.cli.command_table import DEBUG_HELP, DEBUG_VARIABLE, SUMMARY, VERSION_HELP
from innet.cli.text_output import say

app = typer.Typer(
    name="innet",
    cls=CommandGroup,
    help=SUMMARY,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"innet {innet.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help=VERSION_HELP),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, help=DEBUG_HELP)] = False,
) -> None:
    """Options of ``innet`` itself; its subcommands follow."""
