"""Which workers run, by their own reports: a controller that follows another begins with these."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import psutil

from innet.errors import NoAnswer
from innet.node.control.messenger import ConnectToNode
from innet.node.control.worker_reports import WorkerReport

_WORKERS_ASKED_AT_ONCE = 32
_REPORT_TIMEOUT_S = 1.0


def call_roll(hosts: Iterable[str], connect: ConnectToNode) -> list[WorkerReport]:
    """What the workers on ``hosts`` report of themselves; hosts without one are left out.

    Args:
        hosts: where a worker may run.
        connect: opens a connection to a node.
    """
    with ThreadPoolExecutor(_WORKERS_ASKED_AT_ONCE, "controller-resume") as threads:
        answers = threads.map(lambda host: _report_of(host, connect), hosts)
        return [worker for worker in answers if worker is not None]


def _report_of(host: str, connect: ConnectToNode) -> WorkerReport | None:
    try:
        with connect(host) as client:
            answer = client.ask("memberships", timeout_s=_REPORT_TIMEOUT_S)
    except NoAnswer:
        return None  # no worker runs there
    worker = WorkerReport.model_validate(answer)
    return worker if psutil.pid_exists(worker.pid) else None
