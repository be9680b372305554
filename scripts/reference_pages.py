"""Reference pages that the documentation site has beside those in docs/, generated from the code.

``PAGES`` maps the path of each page to the function that writes it. `make docs` calls them
(scripts/docs_site.py); nothing of them is committed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import typer.main
from typer.testing import CliRunner

import innet
import innet.errors
from innet import topology
from innet.cli.command_table import COMMANDS
from innet.cli.main import app
from innet.lab import workload


def commands_page() -> str:
    """Every command with its arguments, options and examples."""
    return _page(
        "Command line",
        "Look up here every command, option and default. [Commands](../commands.md) is the short "
        "form by purpose; `innet COMMAND --help` prints the same in a terminal.",
        _commands(),
    )


def settings_page() -> str:
    """Every setting with its type, default and meaning."""
    return _page(
        "Table of settings",
        "Look up here what each `--set NAME=VALUE` takes, its default and what it does. "
        "[Settings](../settings.md) describes where values come from, and units.",
        _settings(),
    )


def topology_page() -> str:
    """Every key of a topology file."""
    return _page(
        "Keys of a topology file",
        "Look up here every key of a topology file. [Topologies](../../topologies/README.md) "
        "shows a whole file; `innet topology schema` prints the JSON schema for editors.",
        _schema(topology.json_schema()),
    )


def workload_page() -> str:
    """Every key of a workload file."""
    return _page(
        "Keys of a workload file",
        "Look up here every key of a workload file of `innet sim`. "
        "[Workload files](../workloads.md) shows whole files.",
        _schema(workload.json_schema()),
    )


def errors_page() -> str:
    """The tree of errors; mkdocstrings adds each one's description."""
    return _page(
        "Errors",
        "Look up here which error a call raises, and what a handler can catch. Every error that "
        "innet raises on purpose is an `InnetError`; its message says what happened and the next "
        "step.",
        (*_tree_of_errors(), "", "::: innet.errors\n    options: {filters: ['!^_', '!^[A-Z_]+$']}"),
    )


def python_page() -> str:
    """The public names of the package; mkdocstrings adds their documentation."""
    names = sorted(innet.__all__, key=lambda name: (name[0].islower(), name))
    return _page(
        "Python API",
        "Look up here the public names of the package `innet`, as `innet.NAME`. [The Python "
        "API](../collectives.md) shows how to use them; errors have "
        "[a page of their own](errors.md).",
        (f"::: {defining_module(name)}.{name}\n" for name in names),
    )


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/command-line.md": commands_page,
    "docs/reference/settings.md": settings_page,
    "docs/reference/topology.md": topology_page,
    "docs/reference/workload.md": workload_page,
    "docs/reference/errors.md": errors_page,
    "docs/reference/python.md": python_page,
}


def defining_module(name: str) -> str:
    """The module in which a public name of ``innet`` is defined."""
    module: str = getattr(innet, name).__module__
    return module


def _page(title: str, purpose: str, lines: Iterator[str] | tuple[str, ...]) -> str:
    return "\n".join((f"# {title}", "", purpose, "", *lines, ""))


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _commands() -> Iterator[str]:
    root = typer.main.get_command(app)
    commands: dict[str, Any] = vars(root)["commands"]
    for panel in dict.fromkeys(entry.panel for entry in COMMANDS):
        yield f"## {panel}"
        yield ""
        for entry in COMMANDS:
            if entry.panel == panel:
                yield from _command(f"innet {entry.name}", commands[entry.name])


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield _markdown(command.help or "")
    yield ""
    examples = [
        line.removeprefix("[dim]$[/] ")
        for line in (command.epilog or "").splitlines()
        if line.startswith("[dim]$[/] ")
    ]
    if examples:
        yield "\n".join(("```sh", *examples, "```", ""))
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if shown:
        rows = [(_parameter(p), _value(p), _markdown(p.help or ""), _default(p)) for p in shown]
        yield from _table(("argument or option", "takes", "meaning", "default"), rows)
    for below in getattr(command, "commands", {}).values():
        yield from _command(f"{name} {below.name}", below)


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = (parameter.metavar or parameter.name.upper()).strip("[]")
        return f"`{name}`" if parameter.required else f"`{name}` (optional)"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _value(parameter: Any) -> str:
    if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
        return ""
    if words := get_args(parameter.type_descriptor.annotation):
        return ", ".join(f"`{word}`" for word in words if isinstance(word, str))
    return f"`{parameter.metavar or parameter.name.upper()}`"


def _default(parameter: Any) -> str:
    value = parameter.default
    if callable(value) or value is None or isinstance(value, (bool, list, tuple)):
        return ""
    return f"`{value}`" if str(value) else ""


def _markdown(text: str) -> str:
    """A help text, whose marks are those of rich, as Markdown."""
    code = re.sub(r"\[cyan\](.*?)\[/(?:cyan)?\]", r"`\1`", text)
    return re.sub(r"\[/?[a-z ]*\]", "", code).replace("\\[", "[")


def _settings() -> Iterator[str]:
    printed = CliRunner().invoke(app, ["settings", "--json"], catch_exceptions=False)
    listed = json.loads(printed.output)
    for section in dict.fromkeys(setting["name"].partition(".")[0] for setting in listed):
        yield f"## {section}"
        yield ""
        rows = [
            (f"`{s['name']}`", s["takes"], f"`{s['default']}`", s["description"])
            for s in listed
            if s["name"].startswith(f"{section}.")
        ]
        yield from _table(("setting", "takes", "default", "meaning"), rows)


def _schema(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _keys("The file", schema)
    for name, described in schema["$defs"].items():
        yield from _keys(name, described)


def _keys(name: str, described: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield described.get("description", "")
    yield ""
    required = described.get("required", ())
    rows = [
        (
            f"`{key}`" + (" (required)" if key in required else ""),
            _kind(value),
            f"`{json.dumps(value['default'])}`" if value.get("default") is not None else "",
            value.get("description", ""),
        )
        for key, value in described.get("properties", {}).items()
    ]
    if rows:
        yield from _table(("key", "takes", "default", "meaning"), rows)


def _kind(value: Mapping[str, Any]) -> str:
    """What a key takes, in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in value:
            return " or ".join(dict.fromkeys(_kind(choice) for choice in value[several]))
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if value.get("type") == "array":
        return f"list of {_kind(value.get('items', {}))}"
    if isinstance(value.get("additionalProperties"), Mapping):
        return f"mapping to {_kind(value['additionalProperties'])}"
    kinds = value.get("type", "any")
    words = " or ".join(kinds) if isinstance(kinds, list) else kinds
    shown = ", ".join(f"`{json.dumps(example)}`" for example in value.get("examples", ()))
    return f"{words}{_limits(value)}" + (f", such as {shown}" if shown else "")


def _limits(value: Mapping[str, Any]) -> str:
    words = {
        "exclusiveMinimum": "above",
        "minimum": "from",
        "exclusiveMaximum": "below",
        "maximum": "up to",
    }
    return "".join(f" {word} {value[key]:g}" for key, word in words.items() if key in value)


def _tree_of_errors() -> Iterator[str]:
    def below(error: type[BaseException], indent: int) -> Iterator[str]:
        yield f"{'    ' * indent}{error.__name__}"
        for child in error.__subclasses__():
            if child.__module__ == innet.errors.__name__:
                yield from below(child, indent + 1)

    return iter(("```text", *below(innet.errors.InnetError, 0), "```"))
