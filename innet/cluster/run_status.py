"""The status of a run: of its nodes, its controller and its kernel's links."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from innet.cluster.emulation.kernel_network import LinkStatus
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.session_client import read_counters
from innet.errors import ControlError, EmulationError
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient
from innet.node.requests import ControlClient
from innet.security.keys import CERTIFICATES_SUFFIX, load_packets

if TYPE_CHECKING:
    from innet.security.trust.certificate import Certificate
    from innet.security.trust.facts import GroupFacts


ANSWER_TIMEOUT_S = 3.0
"""For the answer of a node or of the controller."""
_PLANS_TIMEOUT_S = 5.0
_CONNECTIONS = 8


class RunStatus(BaseModel):
    """A run at one moment.

    Attributes:
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


def read_run_status(record: RunRecord, timeout_s: float = ANSWER_TIMEOUT_S) -> RunStatus:
    """Read the status of all nodes; those without an answer are ``silent``. Blocks for seconds."""
    running = _running_nodes(record)
    nodes, silent = read_nodes({node: record.control_socket(node) for node in running}, timeout_s)
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


def read_nodes(
    sockets: Mapping[str, Path], timeout_s: float = ANSWER_TIMEOUT_S
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """By node, the status that it answers on its control socket, and why others do not answer."""

    def ask(node: str) -> dict[str, Any] | str:
        if not sockets[node].exists():
            return "no node of innet (yet) in its process"
        try:
            with ControlClient(sockets[node], who=node) as client:
                status: dict[str, Any] = client.request("status", timeout_s=timeout_s)
                return status
        except ControlError as error:
            return str(error)

    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        answers = dict(zip(sockets, threads.map(ask, sockets), strict=True))
    return (
        {node: answer for node, answer in answers.items() if not isinstance(answer, str)},
        {node: answer for node, answer in answers.items() if isinstance(answer, str)},
    )


def _running_nodes(record: RunRecord) -> list[str]:
    alive = (p.node for p in record.processes if p.node is not None and p.identity.is_alive())
    return list(dict.fromkeys(alive))


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
    """The controller's list; empty without a controller, or when it does not answer."""
    socket = record.run_dir / CONTROLLER_SOCKET_NAME
    if record.is_stale or not socket.exists():
        return []
    try:
        with ControllerClient(socket) as client:
            found: list[dict[str, Any]] = client.request(method, timeout_s=ANSWER_TIMEOUT_S)
            return found
    except ControlError:
        return []


def _kernel_links(record: RunRecord) -> list[LinkStatus]:
    if record.mode != "netns" or record.is_stale:
        return []
    try:
        return asyncio.run(read_counters(record))
    except EmulationError:
        return []


def job_anchor(run: RunRecord, job: str | None = None) -> Certificate:
    """The certificate that those of a job's nodes lead up to."""
    from innet.security.trust.certificate import Certificate  # `innet status` needs none

    files = {file.stem: file for file in run.run_dir.glob(f"*{CERTIFICATES_SUFFIX}")}
    names = sorted(files)
    if job is None and len(names) == 1:
        job = names[0]
    if job not in files:
        running = f"the jobs of {run.run_id} are {', '.join(names)}" if names else "none runs there"
        asked = "say which job's anchor you want" if job is None else f"there is no job {job}"
        raise EmulationError(f"{asked}: {running}. `innet status {run.run_id}` shows them.")
    return Certificate.parse(load_packets(files[job])[0])


def group_facts(run: RunRecord) -> dict[str, GroupFacts]:
    """The facts that policies need about the groups of a run's jobs, by name prefix."""
    from innet.plans import Plan
    from innet.security.trust.facts import GroupFacts

    with ControllerClient(run.run_dir / CONTROLLER_SOCKET_NAME) as client:
        groups = client.request("plans", timeout_s=_PLANS_TIMEOUT_S)
    facts: dict[str, GroupFacts] = {}
    for group in groups:
        for prefix, placements in group["plans"].items():
            made, *moved = (
                GroupFacts.of_plan(Plan.from_dict(plan), group["ranks"]) for plan in placements
            )
            for later in moved:
                made = later.merged_with(made)
            facts[prefix] = made
    return facts
