"""``innet watch``: shows a run live, from its telemetry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import open_console
from innet.cli.web_page import is_recording_path, watch_in_browser

if TYPE_CHECKING:
    from innet.cli.watch_view import Viewer
    from innet.cluster.run_broker import RunBroker
    from innet.telemetry.feed import RunFeed

EXAMPLES = options.examples(
    "innet watch",
    "innet watch lab",
    "innet watch lab --events | grep -v group_",
    "innet watch lab --web                              # in a browser",
    "innet watch lab.innetrec --web                     # a recording",
    "innet watch lab --broker mqtt://broker.example     # from another machine",
)


@options.grouped
def watch(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[ID|FILE]",
            help="The run, or with [cyan]--web[/] a recording",
            autocompletion=options.run_ids,
        ),
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The MQTT broker of a run on another machine; with a password: "
            "[cyan]file:PATH[/] of a file with its URL",
        ),
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Print states and events line by line, as in a pipe")
    ] = False,
    *,
    page: options.WebOptions,
) -> None:
    """Watch a run live: its nodes, rates, queues, slots and events.

    It reads what the nodes publish over MQTT, so it works from another machine, too. With
    [cyan]--web[/] it shows the network in a browser, live or from a recording.
    """
    if page.is_wanted():
        watch_in_browser(run_id, broker, page)
        return

    if run_id is not None and is_recording_path(run_id):
        raise typer.BadParameter(
            f"a recording is shown in a browser: innet watch {run_id} --web", param_hint="'FILE'"
        )

    from innet.cli.network_choice import typed_broker
    from innet.cli.watch_view import EventLines, LiveScreen
    from innet.cluster.emulation.runs import find_run, network_of
    from innet.cluster.run_broker import RunBroker, broker_of
    from innet.telemetry.broker_url import BrokerUrl
    from innet.telemetry.feed import RunFeed

    console = open_console(highlight=False)
    if broker is not None:
        if run_id is None:
            raise typer.BadParameter("name the run: innet watch ID --broker URL", param_hint="'ID'")
        source = RunBroker(BrokerUrl.parse(typed_broker(broker)))
    else:
        record = find_run(run_id)
        run_id, source = network_of(record), broker_of(record)
    feed = RunFeed(run_id)
    as_lines = events or not console.is_terminal
    viewer: Viewer = EventLines(console, feed) if as_lines else LiveScreen(console, feed)
    with viewer:
        asyncio.run(_watch(source, run_id, feed, viewer, is_local=broker is None))
    console.print(f"{run_id} has ended")


async def _watch(
    broker: RunBroker, run_id: str, feed: RunFeed, viewer: Viewer, *, is_local: bool
) -> None:
    from innet.cluster.run_broker import follow

    def on_lost(why: str) -> bool:
        viewer.tell(f"the broker does not answer: {why}")
        return not (is_local and _has_ended(run_id))

    states = asyncio.ensure_future(_show_states(viewer))
    try:
        await follow(broker, run_id, feed, viewer.on_event, on_lost)
    finally:
        states.cancel()


_STATES_S = 0.5


async def _show_states(viewer: Viewer) -> None:
    while True:
        await asyncio.sleep(_STATES_S)
        viewer.on_states()


def _has_ended(run_id: str) -> bool:
    from innet.cluster.emulation.runs import list_runs, network_of

    return all(network_of(record) != run_id or record.is_stale for record in list_runs())
