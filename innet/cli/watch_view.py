"""Views of a run's telemetry on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.text import Text

from innet.cli.terminal import (
    FittedTable,
    NameCell,
    ScrolledScreen,
    listed,
    short_size,
    shortened,
)
from innet.quantities import counted
from innet.telemetry.feed import NodeFeed, RunFeed
from innet.telemetry.messages import ALARMING_KINDS, RunEvent, refused_packets

_EVENTS_SHOWN = 12
_SOURCE_WIDTH = 10
_STATE_STYLES = {"up": "green", "starting": "yellow", "ended": "yellow", "lost": "bold red"}
_STATE_WORDS: Final[Mapping[str, str]] = {"up": "up", "stopped": "ended", "gone": "lost"}
"""The states of telemetry, by the words of all displays: docs/monitoring.md."""


class Viewer(Protocol):
    """Shows a run's feed, inside its context."""

    def on_event(self, event: RunEvent) -> None:
        """Take an event of the run."""
        ...

    def on_states(self) -> None:
        """Show the states of the feed, which may have changed."""
        ...

    def tell(self, note: str) -> None:
        """Show a note about the view itself."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class EventLines:
    """Prints a line for the run, for each change of a state and each event: for files and pipes."""

    def __init__(self, console: Console, feed: RunFeed) -> None:
        self._console = console
        self._feed = feed
        self._shown: dict[str, str] | None = None

    def on_event(self, event: RunEvent) -> None:
        """Print it."""
        self._console.print(event_line(event), soft_wrap=True)

    def on_states(self) -> None:
        """Print the run once, and what changed since."""
        if self._feed.launcher is None:
            return
        states = dict(_states(self._feed))
        if self._shown is None:
            self._console.print(_heading(self._feed, ""), soft_wrap=True)
        shown, self._shown = self._shown or {}, states
        now = time.strftime("%H:%M:%S")
        for name, state in states.items():
            if shown.get(name) != state:
                source = f" {shortened(name, _SOURCE_WIDTH):{_SOURCE_WIDTH}} "
                self._console.print(
                    Text.assemble((now, "dim"), source, ("state              ", "cyan"), state),
                    soft_wrap=True,
                )

    def tell(self, note: str) -> None:
        """Print it dimmed."""
        self._console.print(note, style="dim", markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to restore."""


class LiveScreen:
    """A full screen that follows the feed."""

    def __init__(self, console: Console, feed: RunFeed) -> None:
        self._feed = feed
        self._note = ""
        self._screen = ScrolledScreen(console, lambda: live_view(self._feed, self._note))

    def on_event(self, event: RunEvent) -> None:
        """The feed has the event already; a problem with the view is over."""
        self._note = ""

    def on_states(self) -> None:
        """The screen shows them by itself."""

    def tell(self, note: str) -> None:
        """Show it in the heading."""
        self._note = note

    def __enter__(self) -> Self:
        self._screen.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._screen.__exit__()


def _states(feed: RunFeed) -> Iterable[tuple[str, str]]:
    """The machines and nodes of a run, each with its state."""
    for machine in () if feed.launcher is None else feed.launcher.machines:
        why = f": {machine.why}" if machine.why else ""
        yield f"machine {machine.name}", f"{machine.state}{why}"
    for name, node in feed.nodes.items():
        if node.status is not None:
            yield name, _STATE_WORDS[node.status.state]


def live_view(feed: RunFeed, note: str = "") -> RenderableType:
    """Nodes with their rates, queues and slots; and the latest events."""
    return Group(
        _heading(feed, note),
        Text(""),
        *_machines_table(feed),
        _nodes_table(feed),
        Text(""),
        *(event_line(event) for event in list(feed.events)[-_EVENTS_SHOWN:]),
    )


def event_line(event: RunEvent) -> Text:
    """One event: when, where, what."""
    at = time.strftime("%H:%M:%S", time.localtime(event.time_s))
    style = "red" if event.kind in ALARMING_KINDS else "cyan"
    source = f" {shortened(event.source, _SOURCE_WIDTH):{_SOURCE_WIDTH}} "
    return Text.assemble((at, "dim"), source, (f"{event.kind:18} ", style), event.message)


def _heading(feed: RunFeed, note: str) -> Text:
    launcher = feed.launcher
    if launcher is None:
        return Text(note or "waiting for the run to publish", style="dim")
    word = _STATE_WORDS[launcher.state]
    state = (word, _STATE_STYLES[word])
    about = f": {launcher.topology}, {launcher.mode}, {counted(len(launcher.nodes), 'node')}, "
    return Text.assemble((launcher.run, "bold"), about, state, *_away(feed), (f"  {note}", "dim"))


def _away(feed: RunFeed) -> Iterable[tuple[str, str]]:
    """A note while the controller is lost."""
    if feed.controller is not None and feed.controller.state == "gone":
        yield ", controller ", ""
        yield "lost", _STATE_STYLES["lost"]


def _machines_table(feed: RunFeed) -> Iterable[RenderableType]:
    """The machines, in ``cluster`` mode."""
    machines = () if feed.launcher is None else feed.launcher.machines
    if not machines:
        return
    table = FittedTable("", "machine", "address", "state", "since", "nodes", "why")
    for machine in machines:
        since = time.strftime("%H:%M:%S", time.localtime(machine.since_s))
        state = f"[{_STATE_STYLES[machine.state]}]{machine.state}[/]"
        nodes = Text(listed(machine.nodes))
        address = machine.address or "-"
        table.add_row(NameCell(machine.name), address, state, since, nodes, Text(machine.why))
    yield table
    yield Text("")


def _nodes_table(feed: RunFeed) -> FittedTable:
    table = FittedTable(
        "", "node", "state", "in", "out", "queue", "dropped", "slots", "sums/s", "pending", "cpu",
        "memory", "refused", less_important=("memory", "pending", "queue", "dropped"),
    )  # fmt: skip
    order = feed.launcher.nodes if feed.launcher is not None else ()
    for name in (*order, *(name for name in feed.nodes if name not in order)):
        if name in feed.nodes:
            table.add_row(NameCell(name), *_cells(feed.nodes[name]))
    return table


def _cells(node: NodeFeed) -> Iterable[RenderableType]:
    state = "?" if node.status is None else _STATE_WORDS[node.status.state]
    yield f"[{_STATE_STYLES.get(state, 'dim')}]{state}[/]"
    counters = node.counters
    if counters is None or state != "up":
        return
    ports = [link.port for link in counters.links]
    yield _bit_rate(node.growth_per_s(lambda c: sum(link.bytes_in for link in c.links)))
    yield _bit_rate(node.growth_per_s(lambda c: sum(link.bytes_out for link in c.links)))
    yield short_size(sum(port.depth_bytes for port in ports))
    yield str(sum(port.dropped_queue + port.dropped_loss for port in ports))
    yield f"{counters.reducer.slots_in_use}/{counters.slots}" if counters.slots else ""
    sums = node.growth_per_s(lambda c: c.reducer.reductions_completed)
    yield "" if sums is None else f"{sums:,.0f}"
    yield str(counters.tables.pit_entries)
    cpu = node.growth_per_s(lambda c: c.cpu_s)
    yield "" if cpu is None else f"{100 * cpu:.0f} %"
    yield short_size(counters.resident_bytes)
    yield str(refused_packets(counters.tables.model_dump()))


def _bit_rate(bytes_per_s: float | None) -> str:
    if bytes_per_s is None:
        return ""
    bps = 8 * bytes_per_s
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= size:
            return f"{bps / size:.1f} {unit}"
    return f"{bps:.0f} bit/s"
