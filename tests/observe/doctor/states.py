"""Hand-made states of a run: a healthy one, and what changes of it."""

from __future__ import annotations

import copy
import socket
from pathlib import Path
from typing import Any

from innet.cluster.emulation.kernel_network import LinkStatus
from innet.cluster.emulation.recorded_parts import RecordedEnd, RecordedMachine
from innet.cluster.emulation.runs import ProcessIdentity, RecordedProcess, RunRecord
from innet.cluster.process_states import ProcessState
from innet.cluster.run_state import Answers, run_state
from innet.cluster.run_status import RunStatus
from innet.observe.doctor import Finding, Observation, examine
from innet.observe.doctor.observation import Look
from innet.topology import load_topology

TOPOLOGY = load_topology("star:2").with_overrides(rate_bps=100_000_000)
RATE_BYTES = 100_000_000 // 8
NODES = ("s0", "h0", "h1")
START_S = 1_000_000.0

_ENDPOINT = ("interests_expressed", "retransmissions_by_gap", "retransmissions_by_timeout")
_FACE = (
    "interests_in", "interests_out", "data_in", "data_out", "bytes_in", "bytes_out", "malformed_in",
    "invalid_signature_in", "send_errors",
)  # fmt: skip
_PORT = ("sent_bytes", "dropped_queue", "dropped_loss", "depth_bytes")


ReadAt = dict[str, tuple[float, float]]


def read_in_order(begin_s: float, *nodes: str) -> ReadAt:
    """When nodes were read, one after the other."""
    return {n: (begin_s + i / 1e3, begin_s + (i + 1) / 1e3) for i, n in enumerate(nodes)}


class State:
    """Two looks at a run a second apart; change ``before`` and ``after``, then :meth:`examine`.

    Losses from the hosts to the switch can be told; :attr:`third` tells those of the other way.
    """

    def __init__(self) -> None:
        self.before = {node: _answer(node) for node in NODES}
        self.after = copy.deepcopy(self.before)
        for answer in self.after.values():
            answer["uptime_s"] += 1.0
            answer["time_s"] += 1.0
        self.processes = {node: ProcessState() for node in NODES}
        self.processes_after = dict(self.processes)
        self.groups: list[dict[str, Any]] = [
            {"name": "g0", "algorithm": "inc", "ranks": ["h0", "h1"], "joined": [0, 1]}
        ]
        self.pools: list[dict[str, Any]] = []
        self.launcher = ProcessIdentity.current()
        self.kernel_links: list[LinkStatus] = []
        self.started_s = START_S - 600
        self.cut: list[tuple[str, str]] = []
        self.machines: dict[str, RecordedMachine] = {}
        self.ends: dict[str, RecordedEnd] = {}
        self.read_before = read_in_order(0, "s0", "h0", "h1")
        self.read_after = read_in_order(1, "h0", "h1", "s0")
        self.third: dict[str, Any] = {}
        self.read_third: ReadAt = {}

    def face(self, node: str, peer: str, look: str = "after") -> dict[str, Any]:
        """A node's face towards a peer."""
        answers: dict[str, Any] = getattr(self, look)
        face: dict[str, Any] = next(f for f in answers[node]["links"] if f["peer"] == peer)
        return face

    def send(self, node: str, peer: str, packets: int = 1000, arrived: int | None = None) -> None:
        """Let Data go over a link between the looks."""
        out, heard = self.face(node, peer), self.face(peer, node)
        out["data_out"] += packets
        out["bytes_out"] += packets * 8000
        out["port"]["sent_bytes"] += packets * 8000
        heard["data_in"] += packets if arrived is None else arrived

    def observation(self) -> Observation:
        """The state as the doctor sees it."""
        looks = [
            Look(self._status(answers, read_at, processes), asked_at_s, asked_at_s + 0.02)
            for answers, read_at, processes, asked_at_s in (
                (self.before, self.read_before, self.processes, START_S),
                (self.after, self.read_after, self.processes_after, START_S + 1.0),
                (self.third, self.read_third, self.processes, START_S - 1.0),
            )
        ]
        return Observation(TOPOLOGY, looks[0], looks[1], looks[2] if self.third else None)

    def examine(self) -> list[Finding]:
        """The doctor's findings about it."""
        return examine(self.observation())

    def only_finding(self) -> Finding:
        """The one thing that the doctor finds."""
        (finding,) = self.examine()
        return finding

    def _status(
        self, answers: dict[str, Any], read_at: ReadAt, processes: dict[str, ProcessState]
    ) -> RunStatus:
        identity = ProcessIdentity.current()
        record = RunRecord(
            run_id="lab",
            mode="local",
            topology="star",
            launcher=self.launcher,
            host=socket.gethostname(),
            run_dir=Path("/nowhere"),
            started_at=START_S,
            processes=tuple(
                RecordedProcess(label=node, node=node, identity=identity, recorded_s=self.started_s)
                for node in processes
            ),
            ready_s=START_S,
            switches=TOPOLOGY.switches,
            hosts=TOPOLOGY.hosts,
            machines=self.machines,
            ends=self.ends,
        )
        silent = {node: "no answer" for node in NODES if node not in answers}
        seen = Answers(answers, silent, self.groups, self.pools, self.cut, processes)
        return RunStatus(
            run=record,
            stale=record.is_stale,
            nodes=answers,
            silent=silent,
            groups=self.groups,
            kernel_links=self.kernel_links,
            jobs=[],
            pools=self.pools,
            state=run_state(record, seen, START_S),
            processes=processes,
            read_at={node: read_at[node] for node in answers if node in read_at},
        )


def _answer(node: str) -> dict[str, Any]:
    peers = ["h0", "h1"] if node == "s0" else ["s0"]
    return {
        "kind": "switch" if node == "s0" else "host",
        "uptime_s": 10.0,
        "time_s": START_S + 0.01,
        "cpu_s": 1.0,
        "slots": 8 if node == "s0" else 0,
        "node": {"no_route": 0},
        "reducer": {"refused_no_slot": 0, "reductions_started": 0},
        "endpoint": dict.fromkeys(_ENDPOINT, 0),
        "operations": [],
        "pools": [],
        "last_unroutable": "/",
        "routes": [[f"/n/{other}", 0, 0] for other in NODES if other != node],
        "links": [
            {
                "peer": peer,
                "silent": False,
                "backlog_packets": 0,
                **dict.fromkeys(_FACE, 0),
                "port": dict.fromkeys(_PORT, 0),
            }
            for peer in peers
        ],
    }
