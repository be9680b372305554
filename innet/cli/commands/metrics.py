"""``innet metrics``: serves a running network's metrics to Prometheus."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say

EXAMPLES = options.examples(
    "innet metrics lab --port 9464",
    "innet metrics lab --once | grep innet_link_queue_bytes",
    "innet run star8 --metrics-port 9464 -- python train.py",
)

_POLL_S = 1.0


def metrics(
    run_id: options.RunId = None,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port on loopback; 0: a free one")
    ] = 9464,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Host name to answer besides 127.0.0.1 and localhost; repeatable"
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the metrics once")] = False,
) -> None:
    """Serve the metrics of all nodes of a network to Prometheus, until Ctrl-C.

    Each scrape reads the nodes over their control sockets; no broker is needed. When the network
    ends, [cyan]innet_run_up[/] is 0; one that is launched again under its name is read again.
    """
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.metrics import MetricsEndpoint, exposition
    from innet.cluster.run_status import RunStatus, read_run_status
    from innet.errors import EmulationError

    record = find_run(run_id)
    name = record.run_id

    def read() -> RunStatus | None:
        try:
            return read_run_status(find_run(name))
        except EmulationError:  # it has ended, and its record is gone
            return None

    if once:
        say(exposition(read), nl=False)
        return
    with MetricsEndpoint(port, read, host or ()) as endpoint:
        say(f"metrics of {name}: {endpoint.url}", err=True)
        was_up = True
        while True:
            time.sleep(_POLL_S)
            if (is_up := _is_up(name)) != was_up:
                was_up = is_up
                waits = f"{name} has ended; waiting until it is launched again, or for Ctrl-C"
                say(f"{name} is up again" if is_up else waits, err=True)


def _is_up(name: str) -> bool:
    from innet.cluster.emulation.runs import find_run
    from innet.errors import EmulationError

    try:
        return not find_run(name).is_stale
    except EmulationError:
        return False
