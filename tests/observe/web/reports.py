"""Telemetry as nodes report it, for tests of the live view."""

from __future__ import annotations

from typing import Any

from innet.telemetry.messages import NodeCounters, NodeStatus

_TABLES = {"cache_hits": 0, "cache_misses": 0, "cache_bytes": 0, "pit_entries": 0}
_REDUCER = {"slots_in_use": 0, "reductions_completed": 0}
_PORT = {"enqueued": 0, "sent_bytes": 0, "depth_bytes": 0, "dropped_queue": 0, "dropped_loss": 0}


def counters(
    node: str, time_s: float, sent_bytes: dict[str, int] | None = None, **more: Any
) -> NodeCounters:
    """The counters of a node whose faces have sent so many bytes to each peer."""
    links = [
        {
            "peer": peer,
            "face": face,
            "silent": peer in more.get("silent", ()),
            "backlog_packets": 0,
            "backlog_dropped": 0,
            "bytes_in": 0,
            "bytes_out": sent,
            "port": _PORT | {"enqueued": 1, "sent_bytes": sent} | more.get("port", {}),
        }
        for face, (peer, sent) in enumerate((sent_bytes or {}).items())
    ]
    return NodeCounters.model_validate(
        {
            "run": "lab",
            "node": node,
            "kind": "switch" if node.startswith("s") else "host",
            "time_s": time_s,
            "uptime_s": more.get("uptime_s", time_s),
            "interval_s": 2.0,
            "cpu_s": more.get("cpu_s", 0.0),
            "telemetry_cpu_s": 0.0,
            "resident_bytes": 1 << 20,
            "slots": 16,
            "tables": _TABLES | more.get("tables", {}),
            "reducer": _REDUCER | more.get("reducer", {}),
            "endpoint": {"bytes_fetched": 0},
            "links": links,
            "commands_refused": {},
            "events_dropped": 0,
        }
    )


def status(node: str, state: Any = "up") -> NodeStatus:
    """The status of a node."""
    kind: Any = "switch" if node.startswith("s") else "host"
    return NodeStatus(run="lab", node=node, state=state, kind=kind, pid=1, since_s=0.0)
