"""Entry point of the ``innet`` command."""

from __future__ import annotations

from typing import Annotated

import typer

import innet

app = typer.Typer(
    name="innet",
    help="Launch named-data networks that reduce on the way, and train over them.",
    no_args_is_help=True,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"innet {innet.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version"),
    ] = False,
) -> None:
    """Launch named-data networks that reduce on the way, and train over them."""
