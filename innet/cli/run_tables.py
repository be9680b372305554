"""Tables of runs, and of the nodes, links and groups of one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from innet.cli.terminal import FittedTable, NameCell, listed, short_size
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.run_status import RunStatus
from innet.quantities import counted
from innet.telemetry.embedded_broker import PASSWORD_NAME
from innet.telemetry.messages import refused_packets

_TENANT_DIGITS = 8
"""As in the names of files, which --tenant of ``innet kv`` takes."""

Counters = Mapping[str, Any]


def runs_view(records: Sequence[RunRecord], foreign: Sequence[Path]) -> RenderableType:
    """The runs of this machine, and the directories of runs of other versions of innet."""
    parts: list[RenderableType] = [runs_table(records) if records else Text("no network is up")]
    for directory in foreign:
        parts.append(
            Text(
                f"{directory.name}: a run of another version of innet, in {directory}. That "
                "version shows and ends it; if its processes are gone, remove the directory.",
                style="yellow",
            )
        )
    return _spaced(parts)


def runs_table(records: Iterable[RunRecord]) -> FittedTable:
    """One line per run."""
    table = FittedTable("", "run", "topology", "mode", "state", "since", "pid")
    for record in records:
        state = _launch_state(record)
        if record.is_elsewhere:
            state = f"on {escape(record.host)}"
        age = _duration(time.time() - record.started_at)
        pid = str(record.launcher.pid)
        run, topology = NameCell(record.run_id, style="bold"), NameCell(record.topology)
        table.add_row(run, topology, record.mode, state, age, pid)
    return table


def _launch_state(record: RunRecord) -> str:
    if record.is_stale:
        return "[red]ended: innet down[/]"
    states = Counter(machine.state for machine in record.machines.values())
    if record.ready_s is None:
        missing = states["starting"] + states["lost"]
        who = f", {counted(missing, 'machine')} missing" if missing else ""
        return f"[yellow]starting{who}[/]"
    return (
        f"[red]up, {counted(states['lost'], 'machine')} lost[/]"
        if states["lost"]
        else "[green]up[/]"
    )


def run_view(status: RunStatus) -> RenderableType:
    """The state of a run, without the details of its nodes."""
    parts: list[RenderableType] = [_heading(status), *_machines(status)]
    parts += [nodes_table(status), *_remarks(status)]
    if status.controller_silence:
        parts.append(Text(status.controller_silence, style="red"))
    parts += [_faces_table(status), *_refused_sends(status)]
    if status.kernel_links:
        parts.append(_kernel_table(status))
    parts += _jobs_and_groups(status)
    return _spaced(parts)


def live_view(status: RunStatus) -> RenderableType:
    """The state that changes from second to second, short enough for a terminal."""
    parts: list[RenderableType] = [*_machines(status), nodes_table(status), *_remarks(status)]
    parts += _jobs_and_groups(status)
    return _spaced(parts)


def node_view(node: str, status: Counters) -> RenderableType:
    """The state of one node: counters, routes, rules, operations."""
    parts: list[RenderableType] = [
        Text(f"{node}: {_kind(status)}, pid {status['pid']}", style="bold"),
        _counters_table("Tables", status["node"]),
        _counters_table("Reducer", status["reducer"]),
        _counters_table("Transport", status["endpoint"]),
        _routes_table(status),
        _rules_table(status["rules"]),
    ]
    if status["operations"]:
        lines = (f"operation {it['number']}: {it['missing']}" for it in status["operations"])
        parts.append(Text("\n".join(("Operations", *lines))))
    return _spaced(parts)


def _kind(status: Counters) -> str:
    """``switch``, ``host``, or ``host of h0.0, h0.1``."""
    workers = status["workers"]
    return f"host of {listed(workers)}" if workers else str(status["kind"])


def _machines(status: RunStatus) -> list[RenderableType]:
    """A table of the machines in ``cluster`` mode, and why some are lost."""
    machines = status.run.machines
    if not machines:
        return []
    table = FittedTable("Machines", "machine", "address", "state", "since", "nodes")
    lost = []
    for name, machine in machines.items():
        since = _duration(time.time() - machine.since_s)
        style = STATE_STYLES[machine.state]
        nodes = Text(listed(machine.nodes))
        table.add_row(
            NameCell(name), machine.address or "-", f"[{style}]{machine.state}[/]", since, nodes
        )
        if machine.state == "lost":
            ran = f"; {listed(machine.ran)} ran there" if machine.ran else ""
            lost.append(Text(f"{name}: {machine.why}{ran}. {machine.remedy}.", style="red"))
    return [table, *lost]


STATE_STYLES: Final[Mapping[str, str]] = {
    "up": "green",
    "off": "dim",
    "ended": "dim",
    "starting": "yellow",
    "restarting": "yellow",
    "restarted": "yellow",
    "starved": "yellow",
    "silent": "red",
    "stopped": "red",
    "cut": "red",
    "lost": "red",
}
"""By state of a node or machine."""


def nodes_table(status: RunStatus) -> FittedTable:
    """One line per node that runs, or that should."""
    table = FittedTable(
        "Nodes", "node", "state", "since", "cpu", "memory", "pending", "slots", "sums", "cached",
        "queued", "lost", "refused", less_important=("since", "queued", "memory"),
    )  # fmt: skip
    for node, condition in status.state.nodes.items():
        if condition.state == "off":
            continue
        style = STATE_STYLES[condition.state]
        since = "-" if condition.since_s is None else _duration(time.time() - condition.since_s)
        named = (NameCell(node), f"[{style}]{condition.state}[/]", since)
        if node not in status.nodes:
            table.add_row(*named)
            continue
        answer = status.nodes[node]
        reducer, tables = answer["reducer"], answer["node"]
        ports = [link["port"] for link in answer["links"]]
        table.add_row(
            *named,
            f"{answer['cpu_s']:.1f} s",
            short_size(answer["resident_bytes"]),
            _count(tables["pit_entries"]),
            f"{reducer['slots_in_use']}/{reducer['slots_in_use_max']}",
            _count(reducer["reductions_completed"]),
            short_size(tables["cache_bytes"]),
            short_size(sum(port["depth_bytes"] for port in ports)),
            _count(sum(port["dropped_queue"] + port["dropped_loss"] for port in ports)),
            _count(refused_packets(tables)),
        )
    return table


def _remarks(status: RunStatus) -> list[RenderableType]:
    """Why nodes are in their states, where that says more; links that are cut."""
    machines = status.run.machines
    lines = [
        f"{name}: {status.silent.get(name) or node.why}"
        for name, node in status.state.nodes.items()
        if (name in status.silent or node.why) and node.state not in ("up", "off")
        if node.machine is None or machines[node.machine].state == "up"  # it says why
    ]
    lines += [f"{near}--{far}: carries no packets" for near, far in status.state.cut]
    return [Text(line, style="red") for line in lines]


def _refused_sends(status: RunStatus) -> list[RenderableType]:
    """Links whose datagrams the kernel has refused, as after a path's MTU has become smaller."""
    refused = {
        f"{node}→{link['peer']}": link["send_errors"]
        for node, answer in status.nodes.items()
        for link in answer["links"]
        if link["send_errors"]
    }
    if not refused:
        return []
    counts = ", ".join(f"{link} {_count(count)}" for link, count in refused.items())
    text = f"Datagrams that the kernel refused to send: {counts}. `innet doctor` says why."
    return [Text(text, style="red")]


def _faces_table(status: RunStatus) -> FittedTable:
    table = FittedTable(
        "Faces (in/out, queue now/deepest)", "face", "Interests", "Data", "bytes", "queue",
        "dropped", "lost", "marked", less_important=("marked", "queue"),
    )  # fmt: skip
    for node, answer in status.nodes.items():
        for link in answer["links"]:
            port = link["port"]
            table.add_row(
                NameCell(node, link["peer"]),
                f"{_count(link['interests_in'])}/{_count(link['interests_out'])}",
                f"{_count(link['data_in'])}/{_count(link['data_out'])}",
                _two_sizes(link["bytes_in"], link["bytes_out"]),
                _two_sizes(port["depth_bytes"], port["max_depth_bytes"]),
                _count(port["dropped_queue"]),
                _count(port["dropped_loss"]),
                _count(port["marked"]),
            )
    return table


def _kernel_table(status: RunStatus) -> FittedTable:
    table = FittedTable("Kernel links", "direction", "bytes", "packets", "drops", "queue")
    for entry in status.kernel_links:
        found = entry.counters
        table.add_row(
            NameCell(entry.link.node, entry.link.peer),
            short_size(found.bytes),
            _count(found.packets),
            _count(found.drops),
            short_size(found.backlog_bytes),
        )
    return table


def _jobs_and_groups(status: RunStatus) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if status.jobs:
        parts.append(_jobs_table(status))
        slots = _job_parts_table(status)
        if slots.row_count:  # pools have none
            parts.append(slots)
    if status.groups:
        parts.append(_groups_table(status))
    if status.pools:
        parts.append(_pools_table(status))
    return [*parts, *_disk_faults(status)]


def _jobs_table(status: RunStatus) -> FittedTable:
    table = FittedTable("Jobs", "job", "weight", "hosts")
    for job in status.jobs:
        table.add_row(NameCell(job["name"]), str(job["weight"]), Text(listed(job["hosts"])))
    return table


def _job_parts_table(status: RunStatus) -> FittedTable:
    """One line for each node with slots for a job."""
    table = FittedTable(
        "Jobs' slots", "job", "node", "in use", "guaranteed", "most", "refused", "taken back",
        "pending", "cached", less_important=("cached", "pending"),
    )  # fmt: skip
    for job in status.jobs:
        name = job["name"]
        for node, part in job["parts"].items():
            if part["slots_guaranteed"]:
                table.add_row(
                    NameCell(name),
                    NameCell(node),
                    str(part["slots_in_use"]),
                    str(part["slots_guaranteed"]),
                    str(part["slots_in_use_max"]),
                    _count(part["refused_no_slot"]),
                    _count(part["slots_taken_back"]),
                    _count(part["pit_entries"]),
                    short_size(part["cache_bytes"]),
                )
                name = ""
    return table


def _groups_table(status: RunStatus) -> FittedTable:
    table = FittedTable("Groups", "job", "group", "algorithm", "joined", "ranks")
    for group in status.groups:
        joined = f"{len(group['joined'])} of {len(group['ranks'])}"
        ranks = Text(listed(group["ranks"]))
        table.add_row(
            NameCell(group["job"]), NameCell(group["name"]), group["algorithm"], joined, ranks
        )
    return table


def _pools_table(status: RunStatus) -> FittedTable:
    """One line per member; the first has the pool's use of the switches' caches."""
    table = FittedTable("Pools", "tenant", "weight", "member", "offers", "cached", "pending")
    for pool in status.pools:
        switches = [
            part for node, part in pool["parts"].items() if status.nodes[node]["kind"] == "switch"
        ]
        named = (NameCell(_tenant(pool)), str(pool["weight"]))
        used = (
            short_size(sum(part["cache_bytes"] for part in switches)),
            str(sum(part["pit_entries"] for part in switches)),
        )
        for node, capacity_bytes in pool["members"].items():
            offered = short_size(capacity_bytes) if capacity_bytes else "-"
            table.add_row(*named, NameCell(node), offered, *used)
            named, used = (NameCell(""), ""), ("", "")
    return table


def _disk_faults(status: RunStatus) -> list[RenderableType]:
    """Tiers of pools that cannot write blocks, or could not."""
    lines = [
        f"{node}: {tier['fault'] or 'blocks could not be written or read'}; the "
        f"{name.replace('_', ' ')} of {pool['tenant']} has lost {_count(tier['failed'])}"
        for node, answer in status.nodes.items()
        for pool in answer["pools"]
        for name, tier in pool["tiers"].items()
        if tier["fault"] or tier["failed"]
    ]
    return [Text("\n".join(lines), style="red")] if lines else []


def _tenant(pool: Mapping[str, Any]) -> str:
    """A tenant by its name, and the digits that stand for it in names."""
    name, digits = pool["name"], pool["tenant"]
    return f"{name} ({digits[:_TENANT_DIGITS]})" if name else digits


def _counters_table(title: str, counters: Counters) -> Table:
    table = _table(title, "counter", "value")
    for name, value in counters.items():
        if value:
            table.add_row(name.replace("_", " "), f"{value:,}")
    if not table.row_count:
        table.add_row("all", "0")
    return table


def _routes_table(status: Counters) -> FittedTable:
    table = FittedTable("Routes", "prefix", "to", "cost")
    peers = {link["face"]: link["peer"] for link in status["links"]}
    for prefix, face, cost in status["routes"]:
        table.add_row(NameCell(prefix), NameCell(peers.get(face, f"face {face}")), str(cost))
    return table


def _rules_table(rules: Sequence[Counters]) -> FittedTable:
    table = FittedTable("Rules", "group", "makes", "for", "of")
    for rule in rules:
        operands = " + ".join(f"{interval} at {hint}" for interval, hint in rule["operands"])
        purpose = "everybody" if rule["primary"] else "itself"
        table.add_row(NameCell(rule["group"]), rule["interval"], purpose, Text(operands))
    return table


def _heading(status: RunStatus) -> Text:
    run = status.run
    state = "ended, remove it with `innet down`" if status.stale else status.state.launch
    age = _duration(time.time() - run.started_at)
    broker = _broker_addresses(run)
    part = "" if run.machine is None else f"\nthe part of machine {run.machine}; the launcher's "
    part += "" if run.machine is None else "machine shows the whole network"
    metrics = "" if run.metrics is None else f"\nmetrics: {run.metrics}"
    ndn = _ndn_addresses(status)
    return Text.assemble(
        (run.run_id, "bold"),
        f": {run.topology}, {run.mode}, {state}, {age}, {run.run_dir}{part}{broker}{metrics}{ndn}",
    )


def _broker_addresses(run: RunRecord) -> str:
    if run.broker is None:
        return ""
    password = run.run_dir / PASSWORD_NAME
    port = "" if run.broker_port is None else f" and {run.broker_port} (password: {password})"
    return f"\nMQTT: {run.broker}{port}, topics innet/{run.run_id}/#"


def _ndn_addresses(status: RunStatus) -> str:
    """Addresses for NDN programs; those that differ only in the node's name are one."""
    by_pattern: dict[str, list[str]] = {}
    for node, answer in status.nodes.items():
        for uri in answer["listeners"]:
            by_pattern.setdefault(uri.replace(f"/{node}.ndn", "/NODE.ndn"), []).append(node)
    return "".join(f"\nNDN: {uri} ({listed(nodes)})" for uri, nodes in sorted(by_pattern.items()))


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


def _two_sizes(first_bytes: int, second_bytes: int) -> str:
    """``13/14 MiB``: the unit once where it is the same."""
    first, second = short_size(first_bytes), short_size(second_bytes)
    number, unit = first.split(" ")
    return f"{number}/{second}" if second.endswith(f" {unit}") else f"{first}/{second}"


def _count(number: int) -> str:
    """Exact below 10,000; then in thousands, millions or thousand millions."""
    if number < 10_000:
        return str(number)
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number / 1e3:.0f}k"


def _duration(duration_s: float) -> str:
    minutes, seconds = divmod(int(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
