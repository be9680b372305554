"""``innet up``: launch a network and hold it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.background import Background, enter_background
from innet.cli.network_choice import (
    become_launcher,
    chosen_output,
    chosen_settings,
    chosen_topology,
)
from innet.cli.text_output import open_console

if TYPE_CHECKING:
    from rich.console import Console

    from innet.cli.announcer import Announcer
    from innet.cluster.emulation.processes import SupervisedProcess
    from innet.cluster.launch import Session

EXAMPLES = options.examples(
    "innet up star8 --rate 200mbit",
    "innet up leaf-spine-16 --mode netns --name lab --detach",
    "innet run --on lab -- python train.py",
    "innet down lab",
)

_REFRESH_S = 1.0


def up(
    topology: options.Topology,
    mode: options.Mode = "local",
    name: Annotated[
        str | None, typer.Option(metavar="ID", help="Name of the run; made up by default")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Go to the background when the network is up")
    ] = False,
    rate: options.Rate = None,
    delay: options.Delay = None,
    loss: options.Loss = None,
    queue: options.Queue = None,
    mtu: options.Mtu = None,
    slots: options.Slots = None,
    broker: options.Broker = None,
    broker_port: options.BrokerPort = None,
    metrics_port: options.MetricsPort = None,
    log_format: options.LogFormat = None,
    log_level: options.LogLevel = None,
    settings: options.SetSettings = [],  # noqa: B006  # typer copies it
) -> None:
    """Launch a network and hold it until Ctrl-C.

    Jobs run on it from other terminals: [cyan]innet run --on ID -- COMMAND[/].
    """
    background = enter_background() if detach else None

    from innet.cli.announcer import Announcer
    from innet.cluster.launch import Session

    console = open_console(highlight=False)
    chosen = chosen_settings(
        settings,
        broker=broker,
        broker_port=broker_port,
        metrics_port=metrics_port,
        log_format=log_format,
        log_level=log_level,
    )
    output = chosen_output(chosen, console)
    session = Session(
        chosen_topology(
            topology, rate=rate, delay=delay, loss=loss, queue=queue, mtu=mtu, slots=slots
        ),
        mode=mode,
        settings=chosen,
        run_id=name,
        output=output,
    )
    become_launcher(chosen, session.network.run_id)
    asyncio.run(_hold(session, Announcer(console, output), background))


async def _hold(session: Session, announce: Announcer, background: Background | None) -> None:
    from innet.topology.summary import counts

    async with session:
        session.network.keep_up()
        run_id = session.network.run_id
        announce(
            f"{run_id} is up ({session.network.mode}): {counts(session.topology)}\n"
            f"  run a job:  innet run --on {run_id} -- COMMAND\n"
            f"  look at it: innet status {run_id}\n"
            f"{_ndn_line(session)}"
            f"  end it:     innet down {run_id}" + ("" if background else ", or Ctrl-C")
        )
        session.network.processes.on_exit(_Obituary(session, announce))
        if background is not None:
            background.report_ready(session.network.run_dir / "session.log")
        if background is None and announce.to_terminal is not None:
            await _show_live(run_id, announce.to_terminal)
        else:
            await asyncio.Event().wait()


def _ndn_line(session: Session) -> str:
    if not session.settings.ndn.unix:
        return ""
    return f"  connect NDN programs: unix://{session.network.run_dir}/NODE.ndn\n"


async def _show_live(run_id: str, console: Console) -> None:
    from rich.live import Live

    from innet.cli.run_tables import live_view
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.launch.run_status import read_run_status

    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            status = await asyncio.to_thread(lambda: read_run_status(find_run(run_id)))
            live.update(live_view(status), refresh=True)
            await asyncio.sleep(_REFRESH_S)


class _Obituary:
    """Says which switch has died: the network goes on without it."""

    def __init__(self, session: Session, announce: Announcer) -> None:
        self._session = session
        self._announce = announce

    def __call__(self, process: SupervisedProcess) -> None:
        ending = self._session.network.processes.terminating
        if process.spec.node in self._session.topology.switches and not ending:
            self._announce(f"switch {process.failure_report()}")
