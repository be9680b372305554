"""Lets the member of a standing pool on a host of this machine hand its blocks over, and leave."""

from __future__ import annotations

import time
from typing import Any, Final

from innet.cluster.emulation.runs import RunRecord, find_run
from innet.errors import KVError
from innet.kv.service.member import LEAVE
from innet.kv.service.standing_pool import JOB_NAME
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient

_PAUSE_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 10.0


def leave(network: str | None, host: str) -> None:
    """Ask a host's member to leave, and wait until it has handed its blocks over.

    Args:
        network: ``None``: the only one of this machine.
        host: of this machine.

    Raises:
        KVError: the host has no member of a pool, or is on another machine, or its member died.
        EmulationError: there is no such network.
    """
    record = find_run(network)
    with ControllerClient(record.run_dir / CONTROLLER_SOCKET_NAME) as controller:
        seat = _seat(controller, record, host)
        here = [p for p in record.processes if p.node == seat and p.machine is None]
        if not here:
            raise KVError(
                f"the member of {host} does not run on this machine. Let it leave there: innet kv "
                f"leave {host}"
            )
        for process in here:
            process.identity.send_signal(LEAVE)
        while all(process.identity.is_alive() for process in here):
            if not _is_member(controller, seat):
                return
            time.sleep(_PAUSE_S)
    raise KVError(
        f"the member of {host} ended before it had left, and is started again with what is on its "
        f"disk. Let it leave again: innet kv leave {host}"
    )


def _seat(controller: ControllerClient, record: RunRecord, host: str) -> str:
    """The node of the host's member."""
    jobs = controller.request("overview", timeout_s=_ANSWER_TIMEOUT_S)["jobs"]
    seats = [node for job in jobs if job["name"] == JOB_NAME for node in job["hosts"]]
    hosts: dict[str, str] = {seat.rpartition(".")[0]: seat for seat in seats}
    if host not in hosts:
        listed = ", ".join(hosts) or "none: it was not started by `innet kv serve`"
        raise KVError(f"{record.run_id} has no member of a pool on {host}; it has them on {listed}")
    return hosts[host]


def _is_member(controller: ControllerClient, seat: str) -> bool:
    pools: list[dict[str, Any]] = controller.request("pools", timeout_s=_ANSWER_TIMEOUT_S)
    return any(seat in pool["members"] for pool in pools)
