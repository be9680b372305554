"""``innet tell``: sends a signed command to one node of a run."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from innet.cli import options
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.telemetry.messages import CommandReply

EXAMPLES = options.examples(
    "innet tell lab s0 set-interval 0.2",
    "innet tell lab s0 drop-cache",
    "innet tell lab s0 dump-state | jq .reducer",
)

app = typer.Typer()

RunId = Annotated[str, typer.Argument(metavar="ID", help="The run", autocompletion=options.run_ids)]
Node = Annotated[str, typer.Argument(metavar="NODE", help="The node")]


@app.callback()
def tell(ctx: typer.Context, run_id: RunId, node: Node) -> None:
    """Send a command to a node, over the run's MQTT broker.

    Commands are signed with the run's operator key: only the user who launched the run has it.
    """
    ctx.obj = (run_id, node)


@app.command("set-interval")
def set_interval(
    ctx: typer.Context,
    interval_s: Annotated[
        float,
        typer.Argument(
            parser=options.seconds(0.1, 3600),
            metavar="TIME",
            help=f"Time between two publications of counters: {options.FORMS_OF_TIME}",
        ),
    ],
) -> None:
    """Change the interval between two publications of counters."""
    from innet.telemetry.commands import SetInterval

    _print(_send(ctx, SetInterval(interval_s=interval_s)))


@app.command("drop-cache")
def drop_cache(ctx: typer.Context) -> None:
    """Empty the node's content store."""
    from innet.telemetry.commands import DropCache

    _print(_send(ctx, DropCache()))


@app.command("dump-state")
def dump_state(ctx: typer.Context) -> None:
    """Print the node's whole state as JSON."""
    from innet.telemetry.commands import DumpState

    say(json.dumps(_send(ctx, DumpState()).result, indent=2))


def _send(ctx: typer.Context, command: Any) -> CommandReply:
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.run_broker import give_command
    from innet.errors import TelemetryError

    run_id, node = ctx.obj
    reply = asyncio.run(give_command(find_run(run_id), node, command))
    if not reply.accepted:
        raise TelemetryError(f"{node} refused the command: {reply.message}")
    return reply


def _print(reply: CommandReply) -> None:
    say(reply.message)
