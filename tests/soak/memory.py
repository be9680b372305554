"""What the processes of a run take, over time, and whether it stays the same."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from innet.cluster.launch import Session

_INTERVAL_S = 2.0
_SAMPLES_PER_STATUS = 3
_WARM_UP_S = 30.0
"""Until imports are done, caches full and buffers as large as they get."""
_FEWEST_SAMPLES = 9

_ROOM = {
    "resident_bytes": (3 << 20, 0.03),
    "descriptors": (2, 0.0),
    "threads": (32, 0.0),  # pools fill up when many nodes are spoken to at once
    "pit_entries": (64, 0.0),
    "slots_in_use": (16, 0.0),
    "retained_bytes": (1 << 20, 0.03),
}
"""By what each may grow, absolutely and relatively: the larger counts."""

Owner = tuple[str, int]
"""A process: its label and its id."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How one quantity of one process has changed.

    Attributes:
        label, pid: of the process.
        what: the quantity.
        lived_s: how long it was looked at, after it had warmed up.
        before, after: median over the first and over the last third of that time.
    """

    label: str
    pid: int
    what: str
    lived_s: float
    before: float
    after: float

    @property
    def is_flat(self) -> bool:
        """Whether it grew no more than what may be chance."""
        absolute, relative = _ROOM[self.what]
        return self.after - self.before <= max(absolute, relative * self.before)

    def __str__(self) -> str:
        return (
            f"{self.label:<16} {self.pid:>8} {self.what:<15} {self.before:>14,.0f} "
            f"{self.after:>14,.0f}  over {self.lived_s:,.0f} s"
        )


@dataclass
class _Series:
    at_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def growth(self, owner: Owner, what: str, least_s: float) -> Growth | None:
        first_s = self.at_s[0] + _WARM_UP_S
        warm = [(s, v) for s, v in zip(self.at_s, self.values, strict=True) if s >= first_s]
        if len(warm) < _FEWEST_SAMPLES or warm[-1][0] - warm[0][0] < least_s:
            return None
        values = [value for _, value in warm]
        third = len(values) // 3
        before, after = statistics.median(values[:third]), statistics.median(values[-third:])
        return Growth(*owner, what, warm[-1][0] - warm[0][0], before, after)


class MemoryWatch:
    """Looks at all processes of a session, the launcher (this process) among them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._series: dict[tuple[Owner, str], _Series] = defaultdict(_Series)

    async def watch(self) -> None:
        """Sample until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_processes())
            group.create_task(self._watch_nodes())

    def growths(self, least_s: float) -> Sequence[Growth]:
        """Of every process that was looked at for ``least_s`` or longer, after its warm-up."""
        found = (
            series.growth(owner, what, least_s) for (owner, what), series in self._series.items()
        )
        return sorted((g for g in found if g is not None), key=lambda g: (g.label, g.pid, g.what))

    @property
    def resident_bytes(self) -> float:
        """Of all processes at the last look."""
        resident = [s for (_, what), s in self._series.items() if what == "resident_bytes"]
        newest_s = max((series.at_s[-1] for series in resident), default=0.0)
        return sum(series.values[-1] for series in resident if series.at_s[-1] == newest_s)

    async def _watch_processes(self) -> None:
        while True:
            self._sample_processes()
            await asyncio.sleep(_INTERVAL_S)

    async def _watch_nodes(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S * _SAMPLES_PER_STATUS)
            for node, status in (await self._session.status()).items():
                self._note(node, status["pid"], "pit_entries", status["node"]["pit_entries"])
                self._note(node, status["pid"], "slots_in_use", status["reducer"]["slots_in_use"])
                retained = status["endpoint"]["retained_bytes"]
                self._note(node, status["pid"], "retained_bytes", retained)

    def _sample_processes(self) -> None:
        at_s = time.monotonic()
        labels = {
            process.identity.pid: process.label
            for process in self._session.network.processes.processes
            if process.returncode is None
        }
        for process in (me := psutil.Process(), *me.children(recursive=True)):
            label = "launcher" if process == me else labels.get(process.pid, "namespace-holder")
            try:
                with process.oneshot():
                    taken = {
                        "resident_bytes": process.memory_info().rss,
                        "descriptors": process.num_fds(),
                        "threads": process.num_threads(),
                    }
            except psutil.Error:
                continue  # it has just ended
            for what, value in taken.items():
                self._note(label, process.pid, what, value, at_s)

    def _note(
        self, label: str, pid: int, what: str, value: float, at_s: float | None = None
    ) -> None:
        series = self._series[(label, pid), what]
        series.at_s.append(time.monotonic() if at_s is None else at_s)
        series.values.append(value)
