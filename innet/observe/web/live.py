"""Follows a run and keeps the history of its live view: the asyncio driver of ``view_state``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from innet.cluster.emulation.runs import RunRecord, find_run
from innet.cluster.process_states import stopped_by_signal
from innet.cluster.run_broker import RunBroker, broker_of, follow, give_command
from innet.errors import InnetError, TelemetryError
from innet.node.node_telemetry import counters_of
from innet.observe.doctor import Observation, examine
from innet.observe.doctor.checks.nodes import late_ranks
from innet.observe.doctor.observation import Look, RunObserver
from innet.observe.web.document import (
    EventLine,
    Line,
    Picture,
    Recording,
    StoredLines,
    picture_of,
    topology_of_neighbours,
)
from innet.observe.web.view_state import LookResult, ViewState, event_line, look_result
from innet.telemetry.commands import Command
from innet.telemetry.feed import RunFeed
from innet.telemetry.messages import CommandReply, RunEvent
from innet.telemetry.topics import without_counters
from innet.topology import Topology, load_topology

_log = logging.getLogger(__name__)

_FRAME_S = 1.0
_QUIET_S = 2.0
"""Between frames without any news, from which nodes that no longer report follow."""
_NEVER_S = float("inf")
_GATHERING_S = 0.1
"""News often comes together: when a job begins, many nodes do."""
_LONGEST_LOOK_S = 2.0
"""Between looks, also where telemetry comes less often."""
_ANSWER_TIMEOUT_S = 1.5
"""Shorter than the doctor's, so that a stopped node shows soon."""
_FIRST_LOOK_S = 5.0
"""Time to wait for the first look; it may fail."""
_GATHER_S = 5.0
"""Time to wait for the first counters of a run on another machine."""

VIEW = "view"
"""The source of events that are of the view itself."""

GiveCommand = Callable[[str, Command], Awaitable[CommandReply]]
KEPT_S = 600.0
KEPT_BYTES = 96 * 2**20
"""Age and size of the lines that a server keeps for pages that join later."""


@dataclass(frozen=True, slots=True)
class _Kept:
    time_s: float
    text: str


class History:
    """Numbered lines, the oldest of which are dropped by age and by size.

    A reader remembers the number of the next line that it needs; a slow one holds nothing back.
    """

    def __init__(self, kept_s: float = KEPT_S, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_s = kept_s
        self._kept_bytes = kept_bytes
        self._lines: deque[_Kept] = deque()
        self._bytes = 0
        self.first = 0
        """The number of the oldest line that is kept."""

    @property
    def end(self) -> int:
        """One more than the number of the newest line."""
        return self.first + len(self._lines)

    def append(self, line: Line) -> None:
        """Keep a line, and drop those that are too old or too many."""
        self.append_text(line.time_s, line.as_json())

    def append_text(self, time_s: float, text: str) -> None:
        """Keep a line, given as JSON."""
        self._lines.append(_Kept(time_s, text))
        self._bytes += len(text)
        while len(self._lines) > 1 and self._is_over(time_s):
            self._bytes -= len(self._lines.popleft().text)
            self.first += 1

    def _is_over(self, now_s: float) -> bool:
        too_old = self._lines[0].time_s < now_s - self._kept_s
        return too_old or self._bytes > self._kept_bytes

    def since(self, number: int, most: int) -> tuple[int, list[str]]:
        """At most ``most`` lines from ``number`` on, and the number after them.

        A number that is no longer kept, or not of this history, stands for the oldest line.
        """
        begin = number if self.first <= number <= self.end else self.first
        stop = min(self.end, begin + most)
        texts = [self._lines[place - self.first].text for place in range(begin, stop)]
        return stop, texts


@dataclass
class View:
    """The content that a server shows.

    Attributes:
        give_command: sends a command to a node; ``None``: the page is read-only.
    """

    picture: Picture
    history: History
    give_command: GiveCommand | None = None
    notice: str = ""
    """Why nothing more comes; empty while the run is followed."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, line: Line) -> None:
        """Add a line, and wake the readers."""
        self.history.append(line)
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next line."""
        await self._changed.wait()

    def close(self, kind: str, notice: str, *, alarming: bool) -> None:
        """Tell the readers why nothing more comes; only the first reason counts."""
        if not self.notice:
            self.notice = notice
            self.note(kind, notice, alarming=alarming)

    async def closed(self) -> str:
        """Wait until nothing more comes, and return why."""
        while not self.notice:
            await self.changed()
        return self.notice

    def note(self, kind: str, message: str, *, alarming: bool = True) -> None:
        """Add an event of the view itself."""
        event = EventLine(
            time_s=time.time(), source=VIEW, kind=kind, message=message, alarming=alarming
        )
        self.append(Line(event=event))


def recorded_view(recording: Recording) -> View:
    """The view of a recording."""
    history = History(kept_s=float("inf"), kept_bytes=1 << 40)
    lines = recording.lines
    if isinstance(lines, StoredLines):
        for time_s, text in zip(lines.times_s, lines.texts, strict=True):
            history.append_text(time_s, text)
    else:
        for line in lines:
            history.append(line)
    picture = recording.picture.model_copy(update={"live": False, "commands": False})
    return View(picture, history)


@contextlib.asynccontextmanager
async def local_view(record: RunRecord) -> AsyncIterator[View]:
    """Follow a run of this machine, from its telemetry and as the doctor looks at it."""
    record.require_up()
    topology = load_topology(str(record.topology_path))
    picture = picture_of(topology, record.run_id, record.mode)
    has_broker = record.broker is not None
    picture = picture.model_copy(update={"live": True, "examined": True, "commands": has_broker})

    async def tell(node: str, command: Command) -> CommandReply:
        return await give_command(record, node, command)

    view = View(picture, History(), tell if has_broker else None)
    # Each look is a frame, and also shows which nodes no longer answer.
    follower = _Follower(view, RunFeed(record.run_id), quiet_s=_NEVER_S)
    interval_s = record.settings().telemetry.interval_s
    with RunObserver(topology) as observer:
        looks = _Looks(record.run_id, topology, observer, follower, interval_s)
        tasks = [follower.frames(), looks.run()]
        if record.broker is not None:
            topics = without_counters(record.run_id)  # the looks have the counters
            may_retry = partial(_is_up, record.run_id)
            tasks.append(follower.telemetry(broker_of(record), may_retry, topics))
        async with _running(view, tasks):
            yield view


@contextlib.asynccontextmanager
async def remote_view(broker: RunBroker, run_id: str) -> AsyncIterator[View]:
    """Follow a run of another machine, from its telemetry alone.

    Raises:
        TelemetryError: the broker does not answer, or the run publishes nothing there.
    """
    feed = RunFeed(run_id)
    view = View(Picture(run=run_id, topology="", mode="", nodes=(), links=()), History())
    follower = _Follower(view, feed)
    async with _running(view, [follower.telemetry(broker, lambda: True)]):
        await _gather(view, feed)
        if feed.launcher is None and follower.lost:
            raise TelemetryError(
                f"the broker does not answer: {follower.lost}. Check the address and the password "
                "of --broker, and whether the broker runs."
            )
        if feed.launcher is None:
            raise TelemetryError(
                f"the broker has no run {run_id}. `mosquitto_sub -t 'innet/+/launcher/status'` on "
                "it lists the runs."
            )
        topology = _reported_topology(feed)
        picture = picture_of(topology, run_id, feed.launcher.mode)
        view.picture = picture.model_copy(update={"live": True})
        follower.state = ViewState(view.picture)
        async with _running(view, [follower.frames()]):
            yield view


async def _gather(view: View, feed: RunFeed) -> None:
    """Wait until each running node has reported its links, or for a few seconds."""
    deadline = time.monotonic() + _GATHER_S
    while time.monotonic() < deadline and not view.notice:
        await asyncio.sleep(0.1)
        up = [n for n in feed.nodes.values() if n.status is None or n.status.state == "up"]
        if feed.launcher is not None and up and all(n.counters is not None for n in up):
            return


def _reported_topology(feed: RunFeed) -> Topology:
    assert feed.launcher is not None
    counters = [node.counters for node in feed.nodes.values() if node.counters is not None]
    kinds = {c.node: c.kind for c in counters}
    neighbours = [(c.node, face.peer) for c in counters for face in c.links]
    if not neighbours:
        raise TelemetryError(
            f"no node of {feed.launcher.run} has reported its links yet. Try again once it is up."
        )
    return topology_of_neighbours(feed.launcher.topology, dict(kinds), neighbours)


class _Follower:
    """Moves what telemetry says into the state, and frames out of it."""

    def __init__(self, view: View, feed: RunFeed, quiet_s: float = _QUIET_S) -> None:
        """``quiet_s``: between frames without any news."""
        self.view = view
        self.state = ViewState(view.picture)
        self._feed = feed
        self._quiet_s = quiet_s
        self._intervals: dict[str, tuple[float, float]] = {}
        """By node, the interval of counters that a command has set, and since when."""
        self._is_due = asyncio.Event()
        self._has_ended = False
        self.lost = ""
        """Why the broker was lost last."""

    async def telemetry(
        self,
        broker: RunBroker,
        may_retry: Callable[[], bool],
        topics: Sequence[str] | None = None,
    ) -> None:
        """Follow the broker until the run ends."""

        def on_lost(why: str) -> bool:
            self.lost = why
            self.view.note("broker_lost", f"the broker does not answer: {why}")
            return may_retry()

        await follow(broker, self._feed.run or "", self._feed, self.take_event, on_lost, topics)
        self.end()

    def take_event(self, event: RunEvent) -> None:
        """Take an event, and show it at once."""
        interval_s = event.details.get("interval_s")
        if event.kind == "interval_set" and isinstance(interval_s, int | float):
            self._intervals[event.source] = (interval_s, event.time_s)
        self.view.append(Line(event=event_line(event)))
        self._is_due.set()

    def intervals_s(self) -> list[float]:
        """The intervals that commands have set, of processes that still run."""
        intervals = list(self._intervals.items())  # events come while a look is taken
        return [s for node, (s, set_s) in intervals if self._has_run_since(node, set_s)]

    def _has_run_since(self, node: str, time_s: float) -> bool:
        fed = self._feed.nodes.get(node)
        if fed is None or fed.status is None:
            return True
        return fed.status.state == "up" and fed.status.since_s <= time_s

    def take_look(self, result: LookResult) -> None:
        """Take what the doctor sees, and show it at once."""
        self.state.take_look(result)
        self._is_due.set()

    def end(self) -> None:
        """Take a last frame without processes, and close the view: the run has ended."""
        self._has_ended = True
        self._is_due.set()

    async def frames(self) -> None:
        """Take a frame after each look and event, and each second that brings a message.

        The first one waits for the first look, before which no node is known to run. Ends with the
        run.
        """
        if self.view.picture.examined:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), _FIRST_LOOK_S)
        shown, shown_s = -1, 0.0
        while not self._has_ended:
            is_quiet = not self._is_due.is_set() and self._feed.taken == shown
            if not is_quiet or time.monotonic() - shown_s >= self._quiet_s:
                self._is_due.clear()
                shown, shown_s = self._feed.taken, time.monotonic()
                self._take_frame(time.time())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), _FRAME_S)
                await asyncio.sleep(_GATHERING_S)
        self.view.append(Line(frame=self.state.ended_frame(time.time())))
        self.view.close("run_ended", f"{self._feed.run} has ended.", alarming=False)

    def _take_frame(self, now_s: float) -> None:
        if self._feed.launcher is not None:
            self.state.take_launcher(self._feed.launcher)
        for node in list(self._feed.nodes.values()):
            if node.status is not None:
                self.state.take_status(node.status)
            if node.counters is not None and (node.status is None or node.status.state == "up"):
                self.state.take_counters(node.counters, now_s)
        self.view.append(Line(frame=self.state.frame(now_s)))


class _Looks:
    """Looks at a run again and again; each two looks in a row are what the doctor compares.

    It looks as often as nodes publish counters, and at once when a process ends, stops or goes on.
    """

    def __init__(
        self,
        run_id: str,
        topology: Topology,
        observer: RunObserver,
        follower: _Follower,
        interval_s: float,
    ) -> None:
        """``interval_s``: of telemetry, where no command has changed it."""
        self._run_id = run_id
        self._topology = topology
        self._observer = observer
        self._follower = follower
        self._interval_s = interval_s
        self._looks: deque[Look] = deque(maxlen=3)
        self._failure = ""

    @property
    def _period_s(self) -> float:
        return min(_LONGEST_LOOK_S, self._interval_s, *self._follower.intervals_s())

    async def run(self) -> None:
        """Look until the run is over."""
        while (record := _record_of(self._run_id)) is not None:
            began_s, pause_s = time.monotonic(), self._period_s
            try:
                result = await asyncio.to_thread(self._result, record)
            except InnetError as error:
                self._tell(error)
            else:
                self._failure = ""
                self._follower.take_look(result)
                pause_s = look_period_s(result, self._period_s)
            took_s = time.monotonic() - began_s
            await self._pause(record, max(pause_s - took_s, took_s / 2))
        self._follower.take_look(LookResult())
        self._follower.end()

    async def _pause(self, record: RunRecord, pause_s: float) -> None:
        """Wait; in the middle, see whether the processes are as the last look found them."""
        await asyncio.sleep(pause_s / 2)
        seen = self._looks[-1].status.processes if self._looks else {}
        if stopped_by_signal(record) == {node: p.stopped for node, p in seen.items()}:
            await asyncio.sleep(pause_s / 2)

    def _tell(self, error: InnetError) -> None:
        """Tell once why a look fails; while a run ends, one may."""
        if str(error) != self._failure and _record_of(self._run_id) is not None:
            self._failure = str(error)
            _log.warning("the live view of %s cannot look at it: %s", self._run_id, error)
            self._follower.view.note("look_failed", f"the run cannot be looked at: {error}")

    def _result(self, record: RunRecord) -> LookResult:
        self._looks.append(self._observer.look(record, _ANSWER_TIMEOUT_S))
        *earlier, last = self._looks
        self._take_counters(last)
        before = earlier[-1] if earlier else last
        third = earlier[0] if len(earlier) > 1 else None
        seen = Observation(self._topology, before, last, third)
        if not earlier:
            return look_result(seen, (), ())
        late = [node for rank in late_ranks(seen) for node in rank.nodes]
        return look_result(seen, examine(seen), late)

    def _take_counters(self, taken: Look) -> None:
        for node, answer in taken.status.nodes.items():
            counters = counters_of(answer, self._run_id, node)
            counters = counters.model_copy(update={"interval_s": self._period_s})
            self._follower.state.take_counters(counters, taken.answered_at_s)


def look_period_s(result: LookResult, period_s: float) -> float:
    """The time to the next look: half a period after a look that finds an operation late.

    Only another look shows whether a rank is late, and that has to show within two periods.
    """
    is_open = not result.late and any(wait.late for wait in result.waits)
    return period_s / 2 if is_open else period_s


def _record_of(run_id: str) -> RunRecord | None:
    """The record of a run; ``None`` when it is over."""
    with contextlib.suppress(InnetError):
        record = find_run(run_id)
        return None if record.is_stale else record
    return None


def _is_up(run_id: str) -> bool:
    return _record_of(run_id) is not None


@contextlib.asynccontextmanager
async def _running(view: View, coroutines: Sequence[Awaitable[None]]) -> AsyncIterator[None]:
    """Run coroutines beside the block, and cancel them at its end; the view shows a failure."""

    async def told(coroutine: Awaitable[None]) -> None:
        try:
            await coroutine
        except Exception as error:
            run, reason = view.picture.run, f"{type(error).__name__}: {error}"
            _log.error("the live view of %s failed", run, exc_info=error)
            view.close(
                "view_failed",
                f"The page no longer follows {run}: {reason}. What it has stays. Run `innet watch "
                f"{run} --web` for a new page; if it fails again, report the log.",
                alarming=True,
            )

    tasks = [asyncio.ensure_future(told(coroutine)) for coroutine in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
