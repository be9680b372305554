"""``innet node``: lets this machine take part in a network of another one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from innet.cli import options
from innet.cli.network_choice import end_at_second_signal
from innet.cli.text_output import say

EXAMPLES = options.examples(
    "innet node join 10.0.0.1:4711 --token-file prod.token",
    "innet node join 10.0.0.1:4711 --token-file prod.token --name h3",
)

app = typer.Typer()


@app.callback()
def node() -> None:
    """Let this machine take part in a network that is launched on another one."""


@app.command()
def join(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS[:PORT]",
            help="Where [cyan]innet up --listen[/] listens; the port is that in the token file by "
            "default",
        ),
    ],
    token_file: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The token file that [cyan]innet up --listen[/] has written"
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The machine of the topology that this one is; the first that is missing by "
            "default",
        ),
    ] = None,
) -> None:
    """Join a network, and run the nodes and ranks that it has for this machine, until it ends.

    Ctrl-C leaves it. Nothing is left then but the machine's key, beside the token file.
    """
    from innet.cluster.machines.addresses import Address
    from innet.cluster.machines.agent import AgentOptions, run_agent

    end_at_second_signal()
    chosen = AgentOptions(Address.parsed(address), token_file, name)
    asyncio.run(run_agent(chosen, say))
