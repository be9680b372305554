"""Records what the links carry in the watched turns of a comparison, for the live view.

Only watched turns are recorded: nothing is read while a turn is timed. The recording's time is that
of the watched turns, one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from innet.lab.compare.sampling import LinkReading
from innet.node.node_config import Mode
from innet.observe.web.document import (
    EventLine,
    Frame,
    Line,
    LinkFigures,
    Recording,
    picture_of,
)
from innet.plans.bounds import DirectedLink
from innet.topology import Topology

LinkReadings = Mapping[DirectedLink, LinkReading]
ReadLinks = Callable[[], Awaitable[LinkReadings]]

_MOST_FRAMES: Final = 40
"""Most frames of a turn; longer turns have fewer frames per second."""
_PAUSE_S: Final = 0.05
"""Between two turns, with links at rest."""


@dataclass
class _Turn:
    """The readings of one watched turn."""

    name: str
    readings: list[tuple[float, LinkReadings]] = field(default_factory=list)
    _step: int = 1
    _asked: int = 0

    def add(self, at_s: float, links: LinkReadings) -> None:
        """Keep every reading, or every second, fourth and so on of a long turn."""
        if self._asked % self._step == 0:
            self.readings.append((at_s, links))
        self._asked += 1
        if len(self.readings) > 2 * _MOST_FRAMES:
            self.readings = self.readings[::2]
            self._step *= 2


class ComparisonRecorder:
    """Keeps the readings of watched turns, and makes a recording of them."""

    def __init__(self, topology: Topology, mode: Mode) -> None:
        self._picture = picture_of(topology, "compare", mode, virtual_time=True)
        self._directions = list(self._picture.directions())
        self._turns: list[_Turn] = []

    def watched(self, name: str, read_links: ReadLinks) -> ReadLinks:
        """Begin a turn: a function that reads the links and keeps what it read."""
        turn = _Turn(name)
        self._turns.append(turn)

        async def read() -> LinkReadings:
            links = await read_links()
            turn.add(time.monotonic(), links)
            return links

        return read

    def recording(self) -> Recording:
        """The frames of all turns, each after an event with its name."""
        lines: list[Line] = []
        begin_s = 0.0
        for turn in self._turns:
            lines.append(Line(event=_event(begin_s, turn.name)))
            frames = self._frames(turn, begin_s)
            lines += [Line(frame=frame) for frame in frames]
            begin_s = (frames[-1].time_s if frames else begin_s) + _PAUSE_S
            lines.append(Line(frame=self._rest(begin_s)))
        return Recording(self._picture, tuple(lines))

    def _frames(self, turn: _Turn, begin_s: float) -> list[Frame]:
        if not turn.readings:
            return []
        step = -(-len(turn.readings) // _MOST_FRAMES)
        kept = turn.readings[::step]
        first_s = kept[0][0]
        return [
            self._frame(begin_s + now_s - first_s, now_s - then_s, then, now)
            for (then_s, then), (now_s, now) in pairwise(kept)
            if now_s > then_s
        ]

    def _frame(self, at_s: float, span_s: float, then: LinkReadings, now: LinkReadings) -> Frame:
        pairs = [(then.get(d), now.get(d)) for d in self._directions]

        def rate(counter: str, scale: float) -> tuple[float | None, ...]:
            return tuple(
                None
                if old is None or new is None
                else _short(scale * max(0, getattr(new, counter) - getattr(old, counter)) / span_s)
                for old, new in pairs
            )

        return Frame(
            time_s=round(at_s, 6),
            links=LinkFigures(
                bps=rate("sent_bytes", 8),
                queue_bytes=tuple(None if new is None else new.depth_bytes for _, new in pairs),
                drops_per_s=rate("drops", 1),
            ),
        )

    def _rest(self, at_s: float) -> Frame:
        return Frame(time_s=round(at_s, 6), links=LinkFigures(bps=(0.0,) * len(self._directions)))


def _event(time_s: float, name: str) -> EventLine:
    return EventLine(time_s=round(time_s, 6), source="compare", kind="turn", message=name)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
