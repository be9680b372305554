"""``innet topology``: shows, checks and converts topologies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from innet.cli import options
from innet.cli.text_output import open_console, say

app = typer.Typer()

SHOW_EXAMPLES = options.examples(
    "innet topology show star8",
    "innet topology show leaf-spine:4x2x4 --picture network.svg",
    "innet topology show Abilene.graphml",
)

VALIDATE_EXAMPLES = options.examples(
    "innet topology validate lab.yaml",
)

EXPORT_EXAMPLES = options.examples(
    "innet topology export fat-tree:4 > lab.yaml",
    "innet topology export mini-ndn.conf > lab.yaml",
)

SCHEMA_EXAMPLES = options.examples(
    "innet topology schema > schema.json",
)


@app.command("list", epilog=options.examples("innet topology list"))
def list_topologies() -> None:
    """List the shipped topologies and the generators."""
    from rich.table import Table

    from innet.topology import load_topology, shipped_topologies
    from innet.topology.generators import expression_forms
    from innet.topology.summary import counts, usual_link_label

    console = open_console()
    table = Table(box=None, pad_edge=False)
    for column in ("topology", "consists of", "links"):
        table.add_column(column)
    for name in shipped_topologies():
        loaded = load_topology(name)
        table.add_row(f"[cyan]{name}[/]", counts(loaded), usual_link_label(loaded) or "")
    console.print(table)
    console.print("\nGenerated: " + ", ".join(f"[cyan]{form}[/]" for form in expression_forms()))


class _ShowCommand(TyperCommand):
    """Allows ``--picture`` without a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert an empty path where another option or nothing follows."""
        given = [*args]
        for place, argument in enumerate(args):
            following = args[place + 1 : place + 2]
            if argument == "--picture" and (not following or following[0].startswith("-")):
                given[place] = "--picture="
        return super().parse_args(ctx, given)


@app.command(epilog=SHOW_EXAMPLES, cls=_ShowCommand)
def show(
    topology: options.Topology,
    picture: Annotated[
        str | None,
        typer.Option(
            metavar="[FILE]",
            help="Draw it into FILE (.svg, .png or .pdf); by default TOPOLOGY.svg",
        ),
    ] = None,
) -> None:
    """Show a topology as text, and as a picture if asked."""

    from innet.topology import load_topology
    from innet.topology.show import describe, draw

    loaded = load_topology(topology)
    path = None if picture is None else Path(picture or f"{loaded.name}.svg")
    if path is not None:
        draw(loaded, path)  # first: what it refuses ends the command before anything is printed
    console = open_console()
    console.print(describe(loaded))
    if path is not None:
        console.print(f"picture: {path}", soft_wrap=True)


@app.command(epilog=VALIDATE_EXAMPLES)
def validate(topology: options.Topology) -> None:
    """Check a topology: exit code 0, or the file, the line and what was expected there."""
    from innet.topology import load_topology
    from innet.topology.summary import counts

    say(f"{topology}: {counts(load_topology(topology))}")


@app.command(epilog=EXPORT_EXAMPLES)
def export(topology: options.Topology) -> None:
    """Print a topology as innet's own YAML."""
    from innet.topology import dump_yaml, load_topology

    say(dump_yaml(load_topology(topology)), nl=False)


@app.command(epilog=SCHEMA_EXAMPLES)
def schema() -> None:
    """Print the JSON schema of topology files, for editors."""
    import json

    from innet.topology import json_schema

    say(json.dumps(json_schema(), indent=2, ensure_ascii=False))
