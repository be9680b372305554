"""Sources to publish without a run."""

from __future__ import annotations

from innet._native import _core
from innet.node.node_config import NodeConfig
from innet.telemetry.messages import NodeCounters, NodeStatus, State
from innet.telemetry.topics import SourceTopics, node_topics


def _zeros(table: str) -> dict[str, int]:
    return dict.fromkeys((key for key, *_ in _core.describe_metrics()[table]), 0)


LINK = {
    **_zeros("links"), "peer": "h0", "face": 0, "silent": False, "backlog_packets": 0,
    "backlog_dropped": 0, "port": _zeros("port"),
}  # fmt: skip
"""A face's counters, all 0."""


class FakeNode:
    """A source that counts its publications and echoes its commands."""

    def __init__(self, run: str = "lab", name: str = "s0", interval_s: float = 3600) -> None:
        self.run = run
        self.name = name
        self.interval_s = interval_s
        self.commands: list[bytes] = []

    @property
    def topics(self) -> SourceTopics:
        return node_topics(self.run, self.name)

    def status(self, state: State) -> bytes:
        return NodeStatus(
            run=self.run, node=self.name, state=state, kind="switch", pid=1, since_s=0.0
        ).payload()

    def counters(self, events_dropped: int) -> bytes:
        return counters(self.run, self.name, events_dropped=events_dropped).payload()

    def on_command(self, payload: bytes) -> bytes:
        self.commands.append(payload)
        self.interval_s = 0.1
        return b"done"


def counters(run: str = "lab", node: str = "s0", **values: object) -> NodeCounters:
    """A node's counters, all 0 but ``values``; those of a table by ``tables={...}``."""
    document: dict[str, object] = {
        "run": run, "node": node, "kind": "switch", "time_s": 0.0, "uptime_s": 0.0,
        "interval_s": 1.0, "cpu_s": 0.0, "telemetry_cpu_s": 0.0, "resident_bytes": 0,
        "slots": 8, "links": [LINK], "commands_refused": {}, "events_dropped": 0,
    }  # fmt: skip
    for field, table in (("tables", "node"), ("reducer", "reducer"), ("endpoint", "endpoint")):
        given = values.pop(field, {})
        assert isinstance(given, dict)
        document[field] = _zeros(table) | given
    return NodeCounters.model_validate(document | values)


def config(node: str = "s0", **changes: object) -> NodeConfig:
    """The configuration of a switch without links."""
    document: dict[str, object] = {
        "run_id": "lab", "node": node, "kind": "switch", "mode": "local", "run_dir": "/nowhere",
        "faces": [], "routes": [], "slots": 8, "cache_bytes": 1 << 20, "cache_policy": "lru",
        "control_socket": "/nowhere/s0.ctl", "seed": 1, "ip_address": None,
    }  # fmt: skip
    return NodeConfig.model_validate(document | changes)
