"""Runs for people: which there are, and what the nodes, links and groups of one do."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from innet.emulation.runs import RunRecord
from innet.launch.run_status import RunStatus
from innet.telemetry.embedded_broker import PASSWORD_NAME

Counters = Mapping[str, Any]

_MIB = 1 << 20


def runs_table(records: Iterable[RunRecord]) -> Table:
    """One line per run."""
    table = _table("", "run", "topology", "mode", "state", "since", "pid")
    for record in records:
        state = "[red]stale: innet down[/]" if record.is_stale else "[green]up[/]"
        age = _duration(time.time() - record.started_at)
        pid = str(record.launcher.pid)
        table.add_row(f"[bold]{record.run_id}[/]", record.topology, record.mode, state, age, pid)
    return table


def run_view(status: RunStatus) -> RenderableType:
    """Everything about a run but the details of its nodes."""
    parts: list[RenderableType] = [_heading(status), nodes_table(status), *_silent_nodes(status)]
    parts.append(_faces_table(status))
    if status.kernel_links:
        parts.append(_kernel_table(status))
    parts += _jobs_and_groups(status)
    return _spaced(parts)


def live_view(status: RunStatus) -> RenderableType:
    """What changes from second to second, short enough for a terminal."""
    parts: list[RenderableType] = [nodes_table(status), *_silent_nodes(status)]
    parts += _jobs_and_groups(status)
    return _spaced(parts)


def node_view(node: str, status: Counters) -> RenderableType:
    """All that one node says: counters, routes, rules, operations."""
    parts: list[RenderableType] = [
        Text(f"{node}: {status['kind']}, pid {status['pid']}", style="bold"),
        _counters_table("Tables", status["node"]),
        _counters_table("Reducer", status["reducer"]),
        _counters_table("Transport", status["endpoint"]),
        _routes_table(status),
        _rules_table(status["rules"]),
    ]
    if status["operations"]:
        parts.append(Text("\n".join(("Operations", *status["operations"]))))
    return _spaced(parts)


def nodes_table(status: RunStatus) -> Table:
    """One line per node that runs."""
    table = _table(
        "Nodes", "node", "cpu", "memory", "pending", "slots", "sums", "cached", "queued", "lost",
        "refused",
    )  # fmt: skip
    for node, answer in status.nodes.items():
        reducer, tables = answer["reducer"], answer["node"]
        ports = [link["port"] for link in answer["links"]]
        table.add_row(
            node,
            f"{answer['cpu_s']:.1f} s",
            _size(answer["resident_bytes"]),
            str(tables["pit_entries"]),
            f"{reducer['slots_in_use']}/{reducer['slots_in_use_max']}",
            str(reducer["reductions_completed"]),
            _size(tables["cache_bytes"]),
            _size(sum(port["depth_bytes"] for port in ports)),
            str(sum(port["dropped_queue"] + port["dropped_loss"] for port in ports)),
            str(_refused(answer)),
        )
    return table


def _silent_nodes(status: RunStatus) -> list[RenderableType]:
    return [Text(f"{node}: {why}", style="red") for node, why in status.silent.items()]


def _refused(answer: Counters) -> int:
    """Packets that a node did not trust or understand."""
    reasons = (
        "malformed", "invalid_signature", "unknown_key", "key_out_of_scope", "key_expired",
        "forbidden_interests", "forbidden_answers",
    )  # fmt: skip
    return sum(int(answer["node"][reason]) for reason in reasons)


def _faces_table(status: RunStatus) -> Table:
    table = _table(
        "Faces (in/out, queue now/deepest)", "face", "Interests", "Data", "bytes", "queue",
        "dropped", "lost", "marked",
    )  # fmt: skip
    for node, answer in status.nodes.items():
        for link in answer["links"]:
            port = link["port"]
            table.add_row(
                f"{node}→{link['peer']}",
                f"{link['interests_in']}/{link['interests_out']}",
                f"{link['data_in']}/{link['data_out']}",
                f"{_size(link['bytes_in'])}/{_size(link['bytes_out'])}",
                f"{_size(port['depth_bytes'])}/{_size(port['max_depth_bytes'])}",
                str(port["dropped_queue"]),
                str(port["dropped_loss"]),
                str(port["marked"]),
            )
    return table


def _kernel_table(status: RunStatus) -> Table:
    table = _table("Kernel links", "direction", "bytes", "packets", "drops", "queue")
    for entry in status.kernel_links:
        found = entry.counters
        table.add_row(
            str(entry.link),
            _size(found.bytes),
            str(found.packets),
            str(found.drops),
            _size(found.backlog_bytes),
        )
    return table


def _jobs_and_groups(status: RunStatus) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if status.jobs:
        parts.append(_jobs_table(status))
    if status.groups:
        parts.append(_groups_table(status))
    if status.pools:
        parts.append(_pools_table(status))
    return parts


def _jobs_table(status: RunStatus) -> Table:
    """One line per job and switch that makes sums for it, or one line for the job."""
    table = _table(
        "Jobs", "job", "hosts", "weight", "switch", "slots", "guaranteed", "most", "refused",
        "taken back", "pending", "cached",
    )  # fmt: skip
    for job in status.jobs:
        named = (job["name"], ", ".join(job["hosts"]), str(job["weight"]))
        serving = {s: part for s, part in job["parts"].items() if part["slots_guaranteed"]}
        for switch, part in serving.items():
            table.add_row(
                *named,
                switch,
                str(part["slots_in_use"]),
                str(part["slots_guaranteed"]),
                str(part["slots_in_use_max"]),
                str(part["refused_no_slot"]),
                str(part["slots_taken_back"]),
                str(part["pit_entries"]),
                _size(part["cache_bytes"]),
            )
            named = ("", "", "")
        if not serving:
            table.add_row(*named, *("-",) * 8)
    return table


def _groups_table(status: RunStatus) -> Table:
    table = _table("Groups", "job", "group", "algorithm", "ranks", "joined")
    for group in status.groups:
        joined = f"{len(group['joined'])} of {len(group['ranks'])}"
        ranks = ", ".join(group["ranks"])
        table.add_row(group["job"], group["name"], group["algorithm"], ranks, joined)
    return table


def _pools_table(status: RunStatus) -> Table:
    """One line per member, with what the pool has in the switches' caches on the first."""
    table = _table("Pools", "tenant", "weight", "member", "offers", "cached", "pending")
    for pool in status.pools:
        switches = [
            part for node, part in pool["parts"].items() if status.nodes[node]["kind"] == "switch"
        ]
        named = (pool["tenant"], str(pool["weight"]))
        used = (
            _size(sum(part["cache_bytes"] for part in switches)),
            str(sum(part["pit_entries"] for part in switches)),
        )
        for node, capacity_bytes in pool["members"].items():
            table.add_row(*named, node, _size(capacity_bytes) if capacity_bytes else "-", *used)
            named, used = ("", ""), ("", "")
    return table


def _counters_table(title: str, counters: Counters) -> Table:
    table = _table(title, "counter", "value")
    for name, value in counters.items():
        if value:
            table.add_row(name.replace("_", " "), f"{value:,}")
    if not table.row_count:
        table.add_row("all", "0")
    return table


def _routes_table(status: Counters) -> Table:
    table = _table("Routes", "prefix", "to", "cost")
    peers = {link["face"]: link["peer"] for link in status["links"]}
    for prefix, face, cost in status["routes"]:
        table.add_row(prefix, peers.get(face, f"face {face}"), str(cost))
    return table


def _rules_table(rules: Sequence[Counters]) -> Table:
    table = _table("Rules", "group", "makes", "of", "for")
    for rule in rules:
        operands = " + ".join(f"{interval} at {hint}" for interval, hint in rule["operands"])
        purpose = "everybody" if rule["primary"] else "itself"
        table.add_row(rule["group"], rule["interval"], operands, purpose)
    return table


def _heading(status: RunStatus) -> Text:
    run = status.run
    state = "stale, remove it with `innet down`" if status.stale else "up"
    age = _duration(time.time() - run.started_at)
    broker = _broker_addresses(run)
    metrics = "" if run.metrics is None else f"\nmetrics: {run.metrics}"
    ndn = _ndn_addresses(status)
    return Text.assemble(
        (run.run_id, "bold"),
        f": {run.topology}, {run.mode}, {state}, {age}, {run.run_dir}{broker}{metrics}{ndn}",
    )


def _broker_addresses(run: RunRecord) -> str:
    if run.broker is None:
        return ""
    password = run.run_dir / PASSWORD_NAME
    port = "" if run.broker_port is None else f" and {run.broker_port} (password: {password})"
    return f"\nMQTT: {run.broker}{port}, topics innet/{run.run_id}/#"


def _ndn_addresses(status: RunStatus) -> str:
    """Where NDN programs connect: one address for all that differ in the node's name alone."""
    by_pattern: dict[str, list[str]] = {}
    for node, answer in status.nodes.items():
        for uri in answer["listeners"]:
            by_pattern.setdefault(uri.replace(f"/{node}.ndn", "/NODE.ndn"), []).append(node)
    return "".join(
        f"\nNDN: {uri} ({', '.join(nodes)})" for uri, nodes in sorted(by_pattern.items())
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _spaced(parts: Sequence[RenderableType]) -> Group:
    spaced: list[RenderableType] = []
    for part in parts:
        spaced += [part, Text("")]
    return Group(*spaced[:-1])


def _size(size_bytes: int) -> str:
    """Rounded, unlike :func:`innet.quantities.format_size`, which must be exact."""
    if size_bytes < 10 << 10:
        return f"{size_bytes} B"
    if size_bytes < 10 * _MIB:
        return f"{size_bytes / 1024:.0f} KiB"
    return f"{size_bytes / _MIB:.0f} MiB"


def _duration(duration_s: float) -> str:
    minutes, seconds = divmod(int(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
