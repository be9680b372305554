"""The ``innet`` command: imports subcommands when they are called, turns errors into messages."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from innet.cli.command_table import (
    COMMANDS,
    DEBUG_HELP,
    DEBUG_VARIABLE,
    SUMMARY,
    VERSION_HELP,
    CommandEntry,
)
from innet.cli.interrupts import EXIT_INTERRUPTED, end_interrupted, raise_at_interrupt
from innet.cli.text_output import say
from innet.errors import InnetError
from innet.home_paths import with_home
from innet.printable import printable
from innet.suggestions import near_commands


class SuggestingGroup(TyperGroup):
    """A command with subcommands. An unknown one is an error that names similar ones."""

    def __init__(self, **attributes: Any) -> None:
        # Typer's own suggestions have none for words as short as "uo".
        super().__init__(**attributes | {"suggest_commands": False})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand's name, the subcommand, and the words behind it."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            near = near_commands(args[0], self.commands) if _is_usage(error) else []
            if near:
                names = ", ".join(repr(name) for name in near)
                error.message = f"{error.message.rstrip('.')}. Did you mean {names}?"  # type: ignore[attr-defined]
            raise


class CommandGroup(SuggestingGroup):
    """The root command. It lists its subcommands from ``command_table``, without their modules.

    Exit codes: 0 done; 1 an error, printed on stderr; 2 wrong usage; 130 and 143 ended by Ctrl-C
    and SIGTERM; for ``innet run`` that of the first worker that failed.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LazyCommands(self.commands)  # type: ignore[assignment]

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all subcommands."""
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the options and the commands."""
        from innet.cli.root_help import print_root_help

        print_root_help()

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The subcommands, and the options, that begin with what was typed."""
        lazy = self.commands
        self.commands = {e.name: TyperCommand(name=e.name, help=e.help) for e in COMMANDS}
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = lazy

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; an error ends it with a message instead of a traceback."""
        try:
            returned = super().invoke(ctx)
            raise_at_interrupt()
            return returned
        except KeyboardInterrupt:
            end_interrupted()
            raise
        except InnetError as error:
            if ctx.params["debug"]:
                raise
            _print_error(str(error))
            raise typer.Exit(error.exit_code) from None
        except (typer.Exit, typer.Abort) as end:
            if getattr(end, "exit_code", None) == EXIT_INTERRUPTED:
                end_interrupted()
            raise
        except OSError as error:
            if error.filename is None or ctx.params["debug"]:
                raise  # typer's own, among them the end of a pipe's reader
            _print_error(f"{error.filename}: {error.strerror}")
            raise typer.Exit(1) from None
        except Exception as error:
            if _is_usage(error):
                _reword(error)
                raise
            if ctx.params["debug"]:
                raise
            _print_error(
                f"{type(error).__name__}: {error}\nThis is a defect of innet. `innet --debug ...` "
                "shows where; please report it with that."
            )
            raise typer.Exit(1) from None


class _LazyCommands(Mapping[str, Any]):
    """Commands by name; a command's module is imported when the command is looked up."""

    def __init__(self, loaded: Mapping[str, Any]) -> None:
        self._loaded = dict(loaded)
        self._entries = {entry.name: entry for entry in COMMANDS}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(self._entries[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries | self._loaded)

    def __len__(self) -> int:
        return len(self._entries | self._loaded)


def _load(entry: CommandEntry) -> Any:
    module = importlib.import_module(f"innet.cli.commands.{entry.name}")
    raise_at_interrupt()
    holder = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    holder.callback()(lambda: None)  # makes it a group
    epilog = getattr(module, "EXAMPLES", None)
    if entry.is_group:
        group = module.app
        if group.registered_callback is None:  # whose docstring is the group's help
            group.info.help = entry.help
        holder.add_typer(
            group, name=entry.name, cls=SuggestingGroup, epilog=epilog, no_args_is_help=True
        )
    else:
        holder.command(entry.name, epilog=epilog)(getattr(module, entry.name))
    command = typer.main.get_command(holder).commands[entry.name]  # type: ignore[attr-defined]
    _expand_home(command)
    return command


def _expand_home(command: Any) -> None:
    """Let paths of a command, and of the commands below it, begin with ``~``.

    Shells leave it where it does not begin a word, as in ``--folder=~/blocks``.
    """
    for below in getattr(command, "commands", {}).values():
        _expand_home(below)
    call = command.callback
    if call is None:
        return

    @functools.wraps(call)
    def called(*arguments: Any, **options: Any) -> Any:
        return call(*arguments, **{name: _expanded(name, options[name]) for name in options})

    command.callback = called


def _expanded(name: str, value: Any) -> Any:
    """The value of an option, or of each of its repetitions."""
    if isinstance(value, list):
        return [_expanded(name, each) for each in value]
    if not isinstance(value, Path):
        return value
    try:
        return with_home(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=name) from None


def _is_usage(error: Exception) -> bool:
    """Whether typer tells the user by itself: its errors of usage know how they are shown."""
    return hasattr(error, "format_message")


def _reword(error: Any) -> None:
    """Say what was expected and what was found, where typer has only pydantic's text."""
    cause = error.__cause__
    if type(cause).__module__.startswith("pydantic"):
        from innet.validation_messages import message_of

        error.message = message_of(cause.errors(include_url=False)[0])


def _print_error(message: str) -> None:
    label = typer.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    typer.echo(f"{label} {printable(message)}", err=True)


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
        from innet.cli.build_information import version_text

        say(version_text())
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help=VERSION_HELP)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, help=DEBUG_HELP)] = False,
) -> None:
    """Options of ``innet`` itself; its subcommands follow."""
