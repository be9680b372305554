"""Statuses and telemetry of nodes that lie, and all that shows them."""

from __future__ import annotations

import io
import json
from typing import Any, Final

from rich.console import Console

from innet._native import _core
from innet.cli.run_tables import node_view, run_view
from innet.cluster.metrics import exposition
from innet.node.node_status import status_of
from innet.observe.doctor import examine
from innet.observe.web.document import Line, picture_of
from innet.observe.web.view_state import ViewState, event_line, look_result
from innet.telemetry.feed import RunFeed
from tests.observe.doctor.states import TOPOLOGY, State
from tests.telemetry.sources import counters

MESSAGES: Final[dict[str, dict[str, Any]]] = {
    "status": {"run": "lab", "node": "s0", "state": "up", "kind": "switch", "pid": 1,
               "since_s": 1.0},
    "counters": json.loads(counters().payload()),
    "event": {"run": "lab", "source": "s0", "number": 1, "time_s": 1.0, "kind": "link_lost",
              "message": "x", "details": {"node": "s0"}},
}  # fmt: skip
"""By the leaf of their topics."""
_CONSOLE = Console(file=io.StringIO(), width=100)


def honest_status(most_counters: int | None = None) -> dict[str, Any]:
    """What the switch of a star answers, with that many counters of each table, or all."""

    def table(name: str) -> dict[str, int]:
        return {key: 1 for key, *_ in _core.describe_metrics()[name][:most_counters]}

    def link(peer: str, face: int) -> dict[str, Any]:
        own = {"peer": peer, "face": face, "silent": False}
        backlog = {"backlog_packets": 0, "backlog_dropped": 0}
        return {**table("links"), **own, **backlog, "port": table("port")}

    part = ("slots_in_use", "slots_in_use_max", "slots_guaranteed", "refused_no_slot",
            "slots_taken_back", "pit_entries", "pit_guaranteed", "pit_refused", "cache_bytes",
            "cache_guaranteed_bytes")  # fmt: skip
    foreign = link("", 2) | {"face_id": 9, "remote_uri": "udp4://1.2.3.4:5", "backlog_bytes": 0}
    del foreign["peer"]
    times = {"counts": [1] * 10, "sum_s": 1.0}
    ages = {"counts": [1] * 8, "sum_s": 1.0}
    tier = (
        "blocks",
        "used_bytes",
        "capacity_bytes",
        "pinned_bytes",
        "evicted",
        "damaged",
        "failed",
    )
    pool = ("looked_up", "found", "loaded_bytes", "stored", "stored_bytes", "served", "replicated")
    return {
        "kind": "switch", "workers": ["w0"], "pid": 7, "unheard": ["h0"], "uptime_s": 20.0,
        "resident_bytes": 1 << 20, "cpu_s": 2.0, "time_s": 1_000_010.0, "slots": 8,
        "pools": [{
            **dict.fromkeys(pool, 1), "tenant": "a", "engine": "b", "model": "c",
            "hits": {"memory": 1}, "misses": {"absent": 1}, "lost_copies": {"full": 1},
            "load_times": times, "store_times": times,
            "tiers": {"memory": {**dict.fromkeys(tier, 1), "eviction_ages": ages, "fault": ""}},
        }],
        "unannounced": {"/a": "why"},
        **{name: table(name) for name in ("node", "reducer", "endpoint", "management")},
        "links": [link("h0", 0), link("h1", 1)],
        "foreign_faces": [foreign],
        "listeners": ["unix:///run/s0.ndn"], "routes": [["/n/h0", 0, 0]],
        "rules": [{"group": "/j/g", "interval": "0-1", "primary": True,
                   "operands": [["0", "/n/h0"], ["1", "/n/h1"]]}],
        "jobs": [{"prefix": "/j1", "weight": 1, **dict.fromkeys(part, 1)}],
        "operations": [{"number": 3, "missing": "rank 1", "late": ["1:h1"]}],
        "last_unroutable": "/", "pool_bytes_in_use": 0, "pool_bytes_reserved": 0,
    }  # fmt: skip


def reply_of(status: object) -> bytes:
    """The reply with a status."""
    return json.dumps({"ok": True, "result": status}).encode() + b"\n"


def show_all(status: dict[str, Any]) -> None:
    """Show a status of ``s0`` as `status`, `metrics`, `doctor` and the live view do."""
    state = State()
    state.groups[0]["job"] = "j1"
    earlier = status_of(reply_of({**honest_status(), "uptime_s": 10.0}), "s0")
    state.before["s0"], state.after["s0"] = earlier, status
    observation = state.observation()
    run = observation.after.status.model_copy(update={"nodes": {"s0": status}})
    for table in (run_view(run), node_view("s0", status)):
        _CONSOLE.print(table)
    exposition(lambda: run)
    has_links = {"h0", "h1"} <= {face["peer"] for face in status["links"]}
    if has_links:  # otherwise the observer takes the node for malformed
        view = ViewState(picture_of(TOPOLOGY, "lab", "local"))
        view.take_look(look_result(observation, examine(observation), ()))
        Line(frame=view.frame(1.0)).as_json()


def read_status(document: bytes) -> dict[str, Any]:
    """Read a reply, as whoever shows it does first."""
    return status_of(document, "s0")


def show_telemetry(topic: str, payload: bytes) -> None:
    """Take a message after an honest one, and draw a frame."""
    feed, view = RunFeed("lab"), ViewState(picture_of(TOPOLOGY, "lab", "local"))
    feed.take("innet/lab/nodes/s0/counters", counters(time_s=1.0).payload())
    event = feed.take(topic, payload)
    for node in feed.nodes.values():
        if node.counters is not None:
            view.take_counters(node.counters, 2.0)
            node.growth_per_s(lambda of: of.tables.cache_hits)
        if node.status is not None:
            view.take_status(node.status)
    if feed.launcher is not None:
        view.take_launcher(feed.launcher)
    if event is not None:
        Line(event=event_line(event)).as_json()
    Line(frame=view.frame(2.0)).as_json()
