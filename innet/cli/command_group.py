"""Turns errors into one readable message and an exit code."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from innet.errors import InnetError, JobFailed
from innet.printable import printable

DEBUG_VARIABLE = "INNET_DEBUG"
"""Environment variable that asks for tracebacks, like ``--debug``."""


class CommandGroup(TyperGroup):
    """The root command.

    Exit codes: 0 done; 1 an error, told on stderr; 2 wrong usage; 130 and 143 ended by Ctrl-C and
    SIGTERM; for ``innet run`` that of the first worker that failed.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; an error ends it with a message instead of a traceback."""
        try:
            return super().invoke(ctx)
        except InnetError as error:
            if ctx.params["debug"]:
                raise
            _print_error(str(error))
            raise typer.Exit(error.exit_code if isinstance(error, JobFailed) else 1) from None
        except (typer.Exit, typer.Abort, OSError):
            raise  # typer's own, among them the end of a pipe's reader
        except Exception as error:
            if ctx.params["debug"] or _is_usage(error):
                raise
            _print_error(
                f"{type(error).__name__}: {error}\nThis is a defect of innet. `innet --debug ...` "
                "shows where; please report it with that."
            )
            raise typer.Exit(1) from None


def _is_usage(error: Exception) -> bool:
    """Whether typer tells the user by itself: its errors of usage know how they are shown."""
    return hasattr(error, "format_message")


def _print_error(message: str) -> None:
    label = typer.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    typer.echo(f"{label} {printable(message)}", err=True)
