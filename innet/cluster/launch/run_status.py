"""What a run says about itself: asked from its nodes, its controller and its kernel's links."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from innet.cluster.emulation.link_counters import DirectedLink, LinkCounters
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.launch.client import read_counters
from innet.errors import ControlError, EmulationError
from innet.node.control.client import ControlClient
from innet.node.control.controller_socket import CONTROLLER_SOCKET_NAME, ControllerClient

_TIMEOUT_S = 3.0
_CONNECTIONS = 8


class LinkStatus(BaseModel):
    """The kernel's counters of one direction of a link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    link: DirectedLink
    counters: LinkCounters


class RunStatus(BaseModel):
    """A run at one moment.

    Attributes:
        run: its record.
        stale: the launcher is gone, and whatever is left waits for ``innet down``.
        nodes: by name, what each node that runs answered (see ``NodeAgent.status``).
        silent: by name, why a node that runs gave no answer.
        jobs: that run on it, with what each uses and is guaranteed on every switch
            (``parts``, by switch; see ``NodeAgent.status``).
        groups: the controller's groups of ranks.
        pools: of blocks: members with the bytes that each offers, and ``parts`` as of jobs.
        kernel_links: in netns mode.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: RunRecord
    stale: bool
    nodes: dict[str, dict[str, Any]]
    silent: dict[str, str]
    jobs: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    pools: list[dict[str, Any]]
    kernel_links: list[LinkStatus]


def read_run_status(record: RunRecord) -> RunStatus:
    """Ask everybody who runs; who does not answer is ``silent``. Blocks for up to some seconds."""
    nodes: dict[str, dict[str, Any]] = {}
    silent: dict[str, str] = {}
    running = _running_nodes(record)
    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        sockets = {node: record.control_socket(node) for node in running}
        for node, answer in zip(sockets, threads.map(_ask_status, sockets.items()), strict=True):
            if isinstance(answer, str):
                silent[node] = answer
            else:
                nodes[node] = answer
    return RunStatus(
        run=record,
        stale=record.is_stale,
        nodes=nodes,
        silent=silent,
        jobs=_with_parts(_listed(record, "jobs"), nodes),
        groups=_listed(record, "groups"),
        pools=_with_parts(_listed(record, "pools"), nodes),
        kernel_links=_kernel_links(record),
    )


def _running_nodes(record: RunRecord) -> list[str]:
    alive = (p.node for p in record.processes if p.node is not None and p.identity.is_alive())
    return list(dict.fromkeys(alive))


def _ask_status(node_and_socket: tuple[str, Path]) -> dict[str, Any] | str:
    node, socket = node_and_socket
    if not socket.exists():
        return "no node of innet (yet) in its process"
    try:
        with ControlClient(socket, who=node) as client:
            status: dict[str, Any] = client.ask("status", timeout_s=_TIMEOUT_S)
            return status
    except ControlError as error:
        return str(error)


def _with_parts(
    listed: list[dict[str, Any]], nodes: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    return [{**job, "parts": _parts(job["prefix"], nodes)} for job in listed]


def _parts(prefix: str, nodes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By switch, what it says of the job or the pool with that prefix."""
    return {
        node: part
        for node, answer in nodes.items()
        for part in answer["jobs"]
        if part["prefix"] == prefix
    }


def _listed(record: RunRecord, method: str) -> list[dict[str, Any]]:
    """What the controller lists; nothing when there is none, or it does not answer."""
    socket = record.run_dir / CONTROLLER_SOCKET_NAME
    if record.is_stale or not socket.exists():
        return []
    try:
        with ControllerClient(socket) as client:
            found: list[dict[str, Any]] = client.ask(method, timeout_s=_TIMEOUT_S)
            return found
    except ControlError:
        return []


def _kernel_links(record: RunRecord) -> list[LinkStatus]:
    if record.mode != "netns" or record.is_stale:
        return []
    try:
        counters = asyncio.run(read_counters(record))
    except EmulationError:
        return []
    return [LinkStatus(link=link, counters=found) for link, found in counters.links]
