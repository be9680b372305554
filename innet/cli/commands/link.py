"""``innet link``: cuts a link of a running network, or changes its rate, delay or loss."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

EXAMPLES = options.examples(
    "innet link down h0 s0 --for 10s",
    "innet link change h0 s0 --rate 10mbit --delay 5ms --loss 1%",
    "innet link up h0 s0",
)

app = typer.Typer()

Ends = Annotated[
    tuple[str, str], typer.Argument(metavar="NODE NODE", help="The nodes at the link's ends")
]
RunOption = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="ID",
        help="The run; the only one that is up by default",
        autocompletion=options.run_ids,
    ),
]
For = Annotated[
    float | None,
    options.time_option(
        "--for",
        least_s=0.001,
        most_s=86400.0,
        help="Time after which the link is as in the topology again",
        default="until [cyan]innet link up[/]",
    ),
]


@app.callback()
def link() -> None:
    """Cut a link of a running network, or change its rate, delay or loss.

    Both directions change, in all modes, for the network's own packets; in mode netns, a cut and
    a rate hold for all packets. Running jobs keep their plans.
    """


@app.command()
def down(ends: Ends, lasts_s: For = None, run_id: RunOption = None) -> None:
    """Cut the link: it loses all packets."""
    _change(run_id, ends, is_up=False, lasts_s=lasts_s)


@app.command()
def up(ends: Ends, run_id: RunOption = None) -> None:
    """Let the link be as in the topology again."""
    _change(run_id, ends)


@app.command()
@options.grouped
def change(
    ends: Ends,
    properties: options.ChangeableOptions,
    lasts_s: For = None,
    run_id: RunOption = None,
) -> None:
    """Give the link another rate, delay or loss; the others are as in the topology."""
    from innet.cli.network_choice import changes_of

    changes_of(properties)  # before the network is asked
    given = {name: value for name, value in asdict(properties).items() if value is not None}
    if not given:
        raise typer.BadParameter("expected --rate, --delay or --loss, found none of them")
    _change(run_id, ends, given, lasts_s=lasts_s)


def _change(
    run_id: str | None,
    ends: tuple[str, str],
    settings: dict[str, str] | None = None,
    *,
    is_up: bool = True,
    lasts_s: float | None = None,
) -> None:
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.session_client import LinkRequest, change_link

    request = LinkRequest(ends=ends, settings=settings or {}, is_up=is_up, lasts_s=lasts_s)
    say(asyncio.run(change_link(find_run(run_id), request)))
