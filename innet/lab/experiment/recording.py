"""Records a simulation for the live view, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any, Final, Self

from innet.cluster.run_state import NodeState
from innet.lab.simulation.event_schedule import EventSchedule
from innet.lab.simulation.simulation import Simulation
from innet.observe.web.document import (
    EventLine,
    Frame,
    Line,
    LinkFigures,
    NodeFigures,
    Recording,
    Wait,
    picture_of,
)

_FIRST_PERIOD_S: Final = 100e-6
_PACKETS_IN_A_FRAME: Final = 10
"""At least, because a packet counts whole in the frame in which it ends."""
_MOST_FRAMES: Final = 400
_LEAST_FRAMES: Final = 60
_FIGURES_OF_ALL_FRAMES: Final = 1 << 20
_MOST_WITH_NODES: Final = 200
"""Nodes of a network above which frames have links and states alone: reading all takes long."""


@dataclass
class _Reading:
    """The counters of all links and nodes at one moment."""

    time_s: float = 0.0
    links: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)


class SimulationRecorder:
    """Takes frames at even times; when they are too many, every two become one.

    Use it inside the simulation's programs, as an async context manager.
    """

    def __init__(self, sim: Simulation, schedule: EventSchedule, name: str) -> None:
        """``name``: of the run in the picture."""
        self._sim = sim
        self._schedule = schedule
        self._picture = picture_of(sim.topology, name, "sim", virtual_time=True)
        self._names = [node.name for node in self._picture.nodes]
        self._directions = list(self._picture.directions())
        self._most_frames = max(
            _LEAST_FRAMES, min(_MOST_FRAMES, _FIGURES_OF_ALL_FRAMES // len(self._directions or "x"))
        )
        longest_s = max(
            (8 * link.mtu_bytes / (link.rate_bps or 1e12)) for link in sim.topology.links
        )
        self._period_s = max(_FIRST_PERIOD_S, _PACKETS_IN_A_FRAME * longest_s)
        self._frames: list[Frame] = []
        self._last = _Reading()
        self._sampling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._last = self._read()
        self._sampling = asyncio.ensure_future(self._sample())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sampling is not None:
            self._sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampling
        # Shorter ones would show a packet or two as a rate.
        if not self._frames or self._sim.now_s - self._last.time_s > self._period_s / 2:
            self._take()

    def recording(self) -> Recording:
        """The recording, in the order of its times."""
        events = [
            EventLine(time_s=event.time_s, source="simulation", kind="event", message=event.text)
            for event in self._schedule.applied
        ]
        lines = [Line(frame=frame) for frame in self._frames]
        lines += [Line(event=event) for event in events]
        return Recording(self._picture, tuple(sorted(lines, key=lambda line: line.time_s)))

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            self._take()
            if len(self._frames) >= self._most_frames:
                pairs = zip(self._frames[::2], self._frames[1::2], strict=False)
                self._frames = [_merged(first, second) for first, second in pairs]
                self._period_s *= 2

    def _read(self) -> _Reading:
        network = self._sim.network
        nodes = network.status() if len(self._names) <= _MOST_WITH_NODES else {}
        return _Reading(self._sim.now_s, network.link_counters(), nodes)

    def _take(self) -> None:
        last, self._last = self._last, self._read()
        now, span_s = self._last, self._last.time_s - last.time_s
        if span_s <= 0:
            return

        def rate(counter: str, scale: float) -> tuple[float, ...]:
            grown = (now.links[d][counter] - last.links[d][counter] for d in self._directions)
            return tuple(_short(max(0.0, scale * growth / span_s)) for growth in grown)

        self._frames.append(
            Frame(
                time_s=now.time_s,
                states=self._states(),
                cut=self._cut(),
                late=tuple(node for (node,) in self._schedule.active("straggle")),
                links=LinkFigures(
                    bps=rate("sent_bytes", 8),
                    queue_bytes=tuple(now.links[d]["depth_bytes"] for d in self._directions),
                    drops_per_s=rate("dropped_queue", 1),
                ),
                nodes=self._node_figures(last, span_s),
                waits=tuple(_waits(now)),
            )
        )

    def _states(self) -> dict[str, NodeState]:
        gone: dict[str, NodeState] = {node: "lost" for (node,) in self._schedule.active("crash")}
        return gone | {node: "stopped" for (node,) in self._schedule.active("pause")}

    def _cut(self) -> tuple[int, ...]:
        down = {frozenset(target) for target in self._schedule.active("link-down")}
        return tuple(
            number
            for number, link in enumerate(self._picture.links)
            if frozenset((self._names[link.a], self._names[link.b])) in down
        )

    def _node_figures(self, last: _Reading, span_s: float) -> NodeFigures:
        if not self._last.nodes:
            return NodeFigures()
        now = self._last.nodes

        def of(table: str, counter: str) -> tuple[float | None, ...]:
            return tuple(now[n][table][counter] if n in now else None for n in self._names)

        def rate(table: str, counter: str, scale: float = 1) -> tuple[float | None, ...]:
            return tuple(
                _short(max(0.0, scale * (now[n][table][counter] - then[table][counter]) / span_s))
                if n in now and (then := last.nodes.get(n)) is not None
                else None
                for n in self._names
            )

        return NodeFigures(
            slots_in_use=of("reducer", "slots_in_use"),
            sums_per_s=rate("reducer", "reductions_completed"),
            cache_bytes=of("node", "cache_bytes"),
            pending=of("node", "pit_entries"),
            fetched_bps=rate("endpoint", "bytes_fetched", 8),
        )


def _waits(now: _Reading) -> list[Wait]:
    return [
        Wait(node=name, number=o["number"], missing=o["missing"][:4000], late=tuple(o["late"]))
        for name, answer in now.nodes.items()
        for o in answer["operations"]
    ]


def _merged(first: Frame, second: Frame) -> Frame:
    """One frame of the time of two: the later one, with the mean of both rates."""
    links = second.links.model_copy(
        update={
            column: _means(getattr(first.links, column), getattr(second.links, column))
            for column in ("bps", "drops_per_s")
        }
    )
    nodes = second.nodes.model_copy(
        update={
            column: _means(getattr(first.nodes, column), getattr(second.nodes, column))
            for column in ("sums_per_s", "fetched_bps")
        }
    )
    return second.model_copy(update={"links": links, "nodes": nodes})


def _means(
    first: tuple[float | None, ...], second: tuple[float | None, ...]
) -> tuple[float | None, ...]:
    return tuple(
        b if a is None or b is None else _short((a + b) / 2)
        for a, b in zip(first, second, strict=True)
    )


def _short(value: float) -> float:
    return float(f"{value:.4g}")
