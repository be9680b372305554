"""``innet topology``: look at topologies, check and convert files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from innet.cli import options
from innet.cli.text_output import open_console, say

app = typer.Typer(
    name="topology",
    help="Show, check and convert topologies.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
    """List the shipped topologies and the forms that generate one."""
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
    """``--picture`` may stand without a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give it an empty path where another option or nothing follows."""
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
            help="Draw it into FILE: .svg, .png or .pdf; TOPOLOGY.svg when no FILE is named",
        ),
    ] = None,
) -> None:
    """Show a topology as text, and as a picture if asked."""

    from innet.topology import load_topology
    from innet.topology.show import describe, draw

    loaded = load_topology(topology)
    console = open_console()
    console.print(describe(loaded))
    if picture is not None:
        path = Path(picture or f"{loaded.name}.svg")
        draw(loaded, path)
        console.print(f"picture: {path}", soft_wrap=True)


@app.command(epilog=VALIDATE_EXAMPLES)
def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The file")],
) -> None:
    """Check a topology file: exit code 0, or the file, the line and what was expected there."""
    from innet.errors import TopologyError
    from innet.topology import load_topology
    from innet.topology.summary import counts

    if not file.exists():
        raise TopologyError("no such file", path=file)
    say(f"{file}: {counts(load_topology(file))}")


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
