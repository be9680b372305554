"""The status of a run: of its nodes, its controller and its kernel's links."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from innet.cluster.emulation.kernel_network import LinkStatus
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.node_reader import NodeReader
from innet.cluster.process_states import (
    ProcessState,
    held_processes,
    is_held,
    process_states,
)
from innet.cluster.run_state import Answers, RunState, run_state
from innet.cluster.session_client import read_counters
from innet.errors import ControlError, EmulationError
from innet.node.controller_client import CONTROLLER_SOCKET_NAME, ControllerClient
from innet.node.node_status import status_of
from innet.printable import one_line
from innet.security.keys import CERTIFICATES_SUFFIX, load_packets
from innet.topology.routes import Ends, ends_of
from innet.validation_messages import StrictModel

if TYPE_CHECKING:
    from innet.security.trust.certificate import Certificate
    from innet.security.trust.facts import GroupFacts


ANSWER_TIMEOUT_S = 3.0
"""Timeout of the answer of a node or the controller."""
_PLANS_TIMEOUT_S = 5.0


class RunStatus(StrictModel):
    """A run at one moment.

    Attributes:
        stale: the launcher is gone, and whatever is left waits for ``innet down``.
        nodes: by name, what each node that runs answered (see ``NodeAgent.status``).
        silent: by name, why a node that runs gave no answer.
        malformed: of the silent ones, those that answered something else than a status.
        jobs: that run on it, with what each uses and is guaranteed on every switch
            (``parts``, by switch; see ``NodeAgent.status``).
        groups: the controller's groups of ranks.
        pools: of blocks: members with the bytes that each offers, and ``parts`` as of jobs.
        kernel_links: in netns mode.
        controller_silence: why a controller that runs gave no answer; empty: it did.
        state: of the launcher, the nodes and the links; that of machines is in ``run``.
    """

    run: RunRecord
    stale: bool
    nodes: dict[str, dict[str, Any]]
    silent: dict[str, str]
    malformed: set[str] = Field(default=set(), exclude=True)
    jobs: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    pools: list[dict[str, Any]]
    kernel_links: list[LinkStatus]
    controller_silence: str = ""
    state: RunState
    processes: dict[str, ProcessState] = Field(default={}, exclude=True)
    read_at: dict[str, tuple[float, float]] = Field(default={}, exclude=True)
    """The monotonic times between which each node read its counters."""


class Overview(StrictModel):
    """The controller's view of jobs, groups of ranks, pools of blocks and cut links."""

    jobs: list[dict[str, Any]] = Field(default_factory=list)
    groups: list[dict[str, Any]] = Field(default_factory=list)
    pools: list[dict[str, Any]] = Field(default_factory=list)
    cut: list[Ends] = Field(default_factory=list)
    silence: str = ""
    """Why the controller gave no view; empty when it did, or when the run has no controller."""


class RunReader:
    """Reads the status of a run again and again, over connections that it keeps.

    Blocking; for one thread at a time.
    """

    def __init__(self, *, with_rules: bool = True) -> None:
        """``with_rules``: see :meth:`innet.node.agent.NodeAgent.status`."""
        self._nodes = NodeReader(with_rules=with_rules, parse=status_of)
        self._controller: ControllerClient | None = None
        self._controller_path: Path | None = None

    def read(
        self,
        record: RunRecord,
        timeout_s: float = ANSWER_TIMEOUT_S,
        phases: Sequence[Collection[str]] = (),
    ) -> RunStatus:
        """The status of all nodes; those without an answer are ``silent``. Blocks for seconds.

        It does not wait for nodes whose process a signal holds, because they cannot answer.

        Args:
            phases: see :meth:`NodeReader.read`.
        """
        sockets = {node: record.control_socket(node) for node in _running_nodes(record)}
        readings = self._nodes.read(sockets, timeout_s, phases, partial(held_processes, record))
        overview = self._overview(record)
        kernel_links = _kernel_links(record)
        processes = process_states(record)
        answers = Answers(
            nodes=readings.nodes,
            silent=readings.silent,
            groups=overview.groups,
            pools=overview.pools,
            cut=[*overview.cut, *_ports_down(kernel_links, readings.nodes)],
            processes=processes,
        )
        return RunStatus(
            run=record,
            stale=record.is_stale,
            nodes=readings.nodes,
            silent=readings.silent,
            malformed=readings.malformed,
            read_at=readings.read_at,
            jobs=_with_parts(overview.jobs, readings.nodes),
            groups=overview.groups,
            pools=_with_parts(overview.pools, readings.nodes),
            kernel_links=kernel_links,
            controller_silence=overview.silence,
            state=run_state(record, answers),
            processes=processes,
        )

    def _overview(self, record: RunRecord) -> Overview:
        """The controller's overview; empty without a controller, or when it does not answer."""
        path = record.run_dir / CONTROLLER_SOCKET_NAME
        if record.is_stale or not path.exists():
            return Overview()
        if self._controller is None or path != self._controller_path:
            self._close_controller()
            self._controller, self._controller_path = ControllerClient(path), path
        try:
            answer = self._controller.request("overview", timeout_s=ANSWER_TIMEOUT_S)
        except ControlError as error:
            return Overview(silence=one_line(str(error)))
        return Overview.model_validate(answer)

    def _close_controller(self) -> None:
        if self._controller is not None:
            self._controller.close()
            self._controller = None

    def close(self) -> None:
        """Close all connections; the next reading opens them again."""
        self._nodes.close()
        self._close_controller()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_run_status(record: RunRecord, timeout_s: float = ANSWER_TIMEOUT_S) -> RunStatus:
    """Read the status of a run once. Blocks for seconds."""
    with RunReader() as reader:
        return reader.read(record, timeout_s)


def _running_nodes(record: RunRecord) -> list[str]:
    alive = (p.node for p in record.processes if p.node is not None and p.is_alive())
    return list(dict.fromkeys(alive))


def _with_parts(
    listed: list[dict[str, Any]], nodes: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    return [{**job, "parts": _parts(job["prefix"], nodes)} for job in listed]


def _parts(prefix: str, nodes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The counters of each switch for the job or pool with that prefix."""
    return {
        node: part
        for node, answer in nodes.items()
        for part in answer["jobs"]
        if part["prefix"] == prefix
    }


def _kernel_links(record: RunRecord) -> list[LinkStatus]:
    if record.mode != "netns" or record.is_stale or is_held(record.launcher):
        return []
    try:
        return asyncio.run(read_counters(record))
    except EmulationError:
        return []


def _ports_down(links: Sequence[LinkStatus], nodes: Collection[str]) -> Iterator[Ends]:
    """Links between answering nodes whose port the kernel has down."""
    for entry in links:
        ends = entry.link.node, entry.link.peer
        if not entry.counters.is_up and all(end in nodes for end in ends):
            yield ends_of(*ends)


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
