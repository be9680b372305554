"""Entry point of the ``innet`` command."""

from __future__ import annotations

from typing import Annotated

import typer

import innet
from innet.cli import options
from innet.cli.command_group import DEBUG_VARIABLE, CommandGroup
from innet.cli.commands import (
    capture,
    compare,
    dissect,
    doctor,
    down,
    fetch,
    forwarder,
    keys,
    kv,
    metrics,
    peek,
    ping,
    plan,
    publish,
    run,
    settings,
    sim,
    status,
    tell,
    topology,
    trust,
    up,
    watch,
)
from innet.cli.text_output import say

NETWORKS = "Networks and jobs"
OBSERVATION = "Health and telemetry"
PACKETS = "Packets"
DESCRIPTIONS = "Topologies and plans"
NAMED_DATA = "Named data, over any NDN forwarder"
TRUST = "Keys and trust"

app = typer.Typer(
    name="innet",
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=options.examples(
        "innet topology show star8",
        "innet run star8 --rate 200mbit -- python train.py",
        "innet compare star8 --quick",
    ),
)
app.command(rich_help_panel=NETWORKS, epilog=run.EXAMPLES)(run.run)
app.command(rich_help_panel=NETWORKS, epilog=compare.EXAMPLES)(compare.compare)
app.command(rich_help_panel=NETWORKS, epilog=sim.EXAMPLES)(sim.sim)
app.add_typer(kv.app, rich_help_panel=NETWORKS)
app.command(rich_help_panel=NETWORKS, epilog=up.EXAMPLES)(up.up)
app.command(rich_help_panel=NETWORKS, epilog=status.EXAMPLES)(status.status)
app.command(rich_help_panel=NETWORKS, epilog=down.EXAMPLES)(down.down)
app.command(rich_help_panel=NETWORKS, epilog=settings.EXAMPLES)(settings.settings)
app.command(rich_help_panel=OBSERVATION, epilog=doctor.EXAMPLES)(doctor.doctor)
app.command(rich_help_panel=PACKETS, epilog=capture.EXAMPLES)(capture.capture)
app.command(rich_help_panel=PACKETS, epilog=dissect.EXAMPLES)(dissect.dissect)
app.command(rich_help_panel=OBSERVATION, epilog=metrics.EXAMPLES)(metrics.metrics)
app.command(rich_help_panel=OBSERVATION, epilog=watch.EXAMPLES)(watch.watch)
app.add_typer(tell.app, name="tell", rich_help_panel=OBSERVATION, epilog=tell.EXAMPLES)
app.add_typer(topology.app, rich_help_panel=DESCRIPTIONS)
app.command(rich_help_panel=DESCRIPTIONS, epilog=plan.EXAMPLES)(plan.plan)
app.command(rich_help_panel=NAMED_DATA, epilog=forwarder.EXAMPLES)(forwarder.forwarder)
app.command(rich_help_panel=NAMED_DATA, epilog=publish.EXAMPLES)(publish.publish)
app.command(rich_help_panel=NAMED_DATA, epilog=fetch.EXAMPLES)(fetch.fetch)
app.command(rich_help_panel=NAMED_DATA, epilog=peek.EXAMPLES)(peek.peek)
app.command(rich_help_panel=NAMED_DATA, epilog=ping.EXAMPLES)(ping.ping)
app.add_typer(keys.app, rich_help_panel=TRUST)
app.add_typer(trust.app, rich_help_panel=TRUST)


def _print_version(asked: bool) -> None:
    if asked:
        say(f"innet {innet.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version"),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar=DEBUG_VARIABLE, help="Show the traceback of an error")
    ] = False,
) -> None:
    """Launch named-data networks whose switches reduce on the way, and train over them."""
