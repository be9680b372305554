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
    """Serve the metrics of all nodes of a running network to Prometheus, until it ends.

    Each scrape reads the nodes over their control sockets; no broker is needed.
    """
    from innet.cluster.emulation.runs import find_run
    from innet.cluster.metrics import MetricsEndpoint, exposition
    from innet.cluster.run_status import read_run_status
    from innet.errors import EmulationError

    record = find_run(run_id)
    run_id = record.run_id
    if once:
        say(exposition(lambda: read_run_status(record)), nl=False)
        return
    with MetricsEndpoint(port, lambda: read_run_status(find_run(run_id)), host or ()) as endpoint:
        say(f"metrics of {run_id}: {endpoint.url}", err=True)
        try:
            while not find_run(run_id).is_stale:
                time.sleep(_POLL_S)
        except EmulationError:
            pass  # the run has ended, and its record is gone
    say(f"{run_id} has ended", err=True)
