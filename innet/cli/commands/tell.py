"""``innet tell``: a signed command to one node of a run."""

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

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The run", autocompletion=options.run_ids),
]
Node = Annotated[str, typer.Argument(metavar="NODE", help="The node that shall obey")]


@app.callback()
def tell(ctx: typer.Context, run_id: RunId, node: Node) -> None:
    """Tell a node what to do, over the run's MQTT broker.

    Commands are signed with the run's operator key: only the user who launched a run gives them.
    """
    ctx.obj = (run_id, node)


@app.command("set-interval")
def set_interval(
    ctx: typer.Context,
    interval_s: Annotated[
        float, typer.Argument(metavar="SECONDS", min=0.1, max=3600, help="Between two counters")
    ],
) -> None:
    """Publish counters that often from now on."""
    from innet.telemetry.commands import SetInterval

    _print(_give(ctx, SetInterval(interval_s=interval_s)))


@app.command("drop-cache")
def drop_cache(ctx: typer.Context) -> None:
    """Empty the node's content store."""
    from innet.telemetry.commands import DropCache

    _print(_give(ctx, DropCache()))


@app.command("dump-state")
def dump_state(ctx: typer.Context) -> None:
    """Print all that the node says of itself, as JSON."""
    from innet.telemetry.commands import DumpState

    say(json.dumps(_give(ctx, DumpState()).result, indent=2))


def _give(ctx: typer.Context, command: Any) -> CommandReply:
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.launch.commanding import give_command
    from innet.errors import TelemetryError

    run_id, node = ctx.obj
    reply = asyncio.run(give_command(find_run(run_id), node, command))
    if not reply.accepted:
        raise TelemetryError(f"{node} refused the command: {reply.message}")
    return reply


def _print(reply: CommandReply) -> None:
    say(reply.message)
