"""Measures a whole comparison: warm-up, watched and timed turns at each size, and failures."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from innet.cluster.emulation.segmentation import segment_bytes
from innet.cluster.launch.calibration import machine_speed
from innet.cluster.launch.network_costs import network_costs
from innet.errors import CollectiveError, EmulationError
from innet.lab.compare.contender import AllreduceResult, AllreduceTask
from innet.lab.compare.launchers import Teams, missing_requirement, open_teams
from innet.lab.compare.measurement import Comparison, Failure, Machine, Measurement, QueueSeries
from innet.lab.compare.methods import (
    BASELINES,
    NEAR_BOUND,
    Method,
    allreduce_completion_bound_s,
    find_method,
    method_bound_s,
)
from innet.lab.compare.progress import ProgressSink, no_progress
from innet.lab.compare.recording import ComparisonRecorder
from innet.lab.compare.sampling import QUEUE_PERIOD_S, ProbedQueues, QueueWatch, TrafficTotal
from innet.lab.harness import Turn, alternating
from innet.node.node_config import Mode
from innet.plans import ProcessorCosts
from innet.quantities import rounded_duration, rounded_rate, rounded_size
from innet.settings import Settings
from innet.telemetry.logs.output import OutputSink
from innet.topology import Topology

DEFAULT_SIZES_BYTES = tuple(4096 << (2 * step) for step in range(8))
"""4 KiB to 64 MiB in steps of four."""

_MIN_REPETITIONS = 3
_MAX_REPETITIONS = 30
_SMALL_BYTES = 64 << 10
_SMALL_OPERATIONS = 21
_DEADLINE_S = 30.0
_DEADLINE_BOUNDS = 15


@dataclass(frozen=True)
class Schedule:
    """The sizes and repetitions of a comparison.

    Attributes:
        sizes_bytes: of each rank's tensor, multiples of 4.
        repetitions: timed turns of each method at each size; ``None`` for as many as fit in
            ``budget_s``, at least 3 and at most 30.
        budget_s: time for the timed turns of one method at one size.
    """

    sizes_bytes: tuple[int, ...] = DEFAULT_SIZES_BYTES
    repetitions: int | None = None
    budget_s: float = 3.0

    def __post_init__(self) -> None:
        for size_bytes in self.sizes_bytes:
            if size_bytes <= 0 or size_bytes % 4:
                raise CollectiveError(
                    f"a tensor of {size_bytes} bytes cannot be compared. Give sizes that are "
                    "positive multiples of 4 bytes."
                )
        if not self.sizes_bytes or (self.repetitions is not None and self.repetitions < 1):
            raise CollectiveError("give at least one size and at least one repetition")

    def turns(self, expected_s: float) -> int:
        """Number of timed turns of a method whose turns take about ``expected_s``."""
        if self.repetitions is not None:
            return self.repetitions
        fitting = int(self.budget_s / max(expected_s, 1e-9))
        return min(max(fitting, _MIN_REPETITIONS), _MAX_REPETITIONS)

    def operations(self, size_bytes: int) -> int:
        """Operations in a turn; several small ones, or the common start would dominate."""
        return _SMALL_OPERATIONS if size_bytes <= _SMALL_BYTES else 1

    def deadline_s(self, size_bytes: int, bound_s: float | None) -> float:
        """Deadline of a turn, far above the time of any turn that makes progress."""
        return _DEADLINE_S + _DEADLINE_BOUNDS * (bound_s or 0.0) * self.operations(size_bytes)


DEFAULT_ALGORITHMS = ("inc", "ring", "ps")

WARM_UP_TURNS = 6
"""More than the operations whose tensors innet keeps, so that timed turns meet no new memory."""
WARM_UP_BUDGET_S = 5.0
"""A method with long turns stops warming up after this time."""


async def compare(
    topology: Topology,
    *,
    mode: Mode = "local",
    algorithms: Sequence[str] = DEFAULT_ALGORITHMS,
    baselines: Sequence[str] | None = None,
    schedule: Schedule | None = None,
    settings: Settings | None = None,
    progress: ProgressSink = no_progress,
    output: OutputSink | None = None,
    recorder: ComparisonRecorder | None = None,
) -> Comparison:
    """Measure allreduce by several methods on one topology.

    At each size, every method first takes warm-up turns, and one turn in which its queues are
    watched; none of these is timed. Then the methods alternate, one timed turn each, until each has
    its repetitions. A method that fails or hangs is left out from there on, and listed in the
    result's ``failures``.

    Args:
        topology: the network; its link properties determine the bounds.
        mode: ``local``, or ``netns``, where baselines run over the same links.
        algorithms: of :data:`innet.plans.ALGORITHMS`; may be empty.
        baselines: of ``methods.BASELINES``; ``None`` for all that can run here. In ``local`` mode
            they run over loopback, hence only on a network whose links have no rate.
        schedule: sizes and repetitions.
        settings: of innet's nodes.
        progress: shows the completed fraction.
        output: takes the lines that workers and switches print.
        recorder: keeps what the links carry in the watched turns, for the live view.

    Example::

        comparison = await compare(load_topology("star8"), mode="netns")
        comparison.save(Path("results/star8.json"))
    """
    names = (*algorithms, *_chosen_baselines(baselines, topology, mode))
    methods = [find_method(name) for name in dict.fromkeys(names)]
    settings = settings or Settings()
    machine = Machine.here()
    async with open_teams(topology, mode, methods, settings, output) as teams:
        processor = network_costs(topology, mode, settings, machine_speed())
        recorder = recorder or ComparisonRecorder(topology, mode)
        sweep = _Sweep(
            topology, methods, schedule or Schedule(), teams, progress, processor, recorder
        )
        await sweep.run()
    return Comparison(
        topology=topology.name,
        hosts=len(topology.hosts),
        switches=len(topology.separate_switches),
        links=describe_links(topology),
        mode=mode,
        signature=settings.security.signature,
        machine=machine,
        versions=teams.versions,
        measurements=sweep.measurements,
        failures=sweep.failures,
    )


def describe_links(topology: Topology) -> str:
    """The links in words.

    >>> describe_links(load_topology("star8"))                            # doctest: +SKIP
    '8 links of 1 Gbit/s'
    """
    links = [link for link in topology.links if not link.in_memory]
    kinds = Counter((link.rate_bps, link.delay_s, link.loss) for link in links)
    words = []
    for (rate_bps, delay_s, loss), count in kinds.items():
        rate = "unlimited rate" if rate_bps is None else rounded_rate(rate_bps)
        delay = f", {rounded_duration(delay_s)} delay" if delay_s else ""
        lost = f", {loss:.2%} loss" if loss else ""
        words.append(f"{count} {'link' if count == 1 else 'links'} of {rate}{delay}{lost}")
    return "; ".join(words)


def _chosen_baselines(
    baselines: Sequence[str] | None, topology: Topology, mode: Mode
) -> Sequence[str]:
    shaped = mode == "local" and any(
        link.rate_bps is not None or link.delay_s or link.loss for link in topology.links
    )
    if baselines is None:
        usable = [] if shaped else list(BASELINES.values())
        return [m.name for m in usable if missing_requirement(m.contender, mode) is None]
    contenders = [find_method(name).contender for name in baselines]
    if baselines and shaped:
        raise EmulationError(
            f"in local mode, the baselines {', '.join(baselines)} run over loopback, which has no "
            "rate, delay or loss. Compare in netns mode (--mode netns), on links without a rate "
            "(--rate unlimited), or without them."
        )
    for name, contender in zip(baselines, contenders, strict=True):
        lacking = missing_requirement(contender, mode)
        if lacking is not None:
            raise EmulationError(f"the baseline {name} cannot run: {lacking}")
    return baselines


@dataclass
class _Tally:
    """The results so far of one method at one size."""

    method: Method
    turns_wanted: int
    bound_s: float | None
    queue: QueueSeries | None
    in_a_row: bool
    processor: ProcessorCosts
    traffic: TrafficTotal = field(default_factory=TrafficTotal)
    samples_s: list[float] = field(default_factory=list)
    operations: int = 0
    correct: bool = True
    retransmissions: int = 0
    packets: int = 0
    calls: int = 0
    cpu_s: float = 0.0
    machine_cpu_s: float = 0.0

    def measurement(self, topology: Topology, size_bytes: int) -> Measurement:
        return Measurement(
            method=self.method.name,
            title=self.method.title,
            size_bytes=size_bytes,
            samples_s=self.samples_s,
            in_a_row=self.in_a_row,
            correct=self.correct,
            bound_s=self.bound_s,
            completion_bound_s=self._completion_bound_s(topology, size_bytes),
            links=self.traffic.per_operation(topology, self.operations),
            deepest_queue=self.queue,
            retransmissions=self.retransmissions,
            packets=self.packets / self.operations,
            calls=self.calls / self.operations,
            cpu_s=self.cpu_s / self.operations,
            machine_cpu_s=self.machine_cpu_s / self.operations,
        )

    def _completion_bound_s(self, topology: Topology, size_bytes: int) -> float | None:
        took_s = statistics.median(self.samples_s)
        if self.in_a_row or self.bound_s is None or took_s < NEAR_BOUND * self.bound_s:
            return None
        return allreduce_completion_bound_s(
            topology,
            topology.hosts,
            self.method.name,
            size_bytes,
            segment_bytes(topology),
            self.processor,
        )


class _Sweep:
    def __init__(
        self,
        topology: Topology,
        methods: Sequence[Method],
        schedule: Schedule,
        teams: Teams,
        progress: ProgressSink,
        processor: ProcessorCosts,
        recorder: ComparisonRecorder,
    ) -> None:
        """``processor``: what ``auto`` chooses by."""
        self.measurements: list[Measurement] = []
        self.failures: list[Failure] = []
        self._topology = topology
        self._methods = list(methods)
        self._schedule = schedule
        self._teams = teams
        self._progress = progress
        self._processor = processor
        self._recorder = recorder

    async def run(self) -> None:
        for number, size_bytes in enumerate(self._schedule.sizes_bytes):
            tallies = await self._observe(number, size_bytes)
            await self._time(number, size_bytes, tallies)
            self.measurements += [
                tally.measurement(self._topology, size_bytes)
                for tally in tallies
                if tally.samples_s and tally.method in self._methods
            ]
        self._progress(1.0, "done")

    async def _observe(self, number: int, size_bytes: int) -> list[_Tally]:
        """Take each method's warm-up turns and its watched turn."""
        tallies = []
        for method in list(self._methods):
            self._tell(number, 0.0, f"{rounded_size(size_bytes)} {method.name}: warm-up")
            try:
                tallies.append(await self._observe_method(method, size_bytes))
            except EmulationError as error:
                await self._give_up(method, size_bytes, error)
        return tallies

    async def _observe_method(self, method: Method, size_bytes: int) -> _Tally:
        bound_s = method_bound_s(method, self._topology, size_bytes, self._processor)
        await self._warm_up(method, size_bytes, bound_s)
        name = f"{method.title}, {rounded_size(size_bytes)}"
        read_links = self._recorder.watched(name, self._teams.probe.links)
        async with QueueWatch(ProbedQueues(read_links)) as watch:
            turn = await self._take_turn(method, size_bytes, bound_s)
        ended_s = turn.started_s + max(sum(result.durations_s) for result in turn.results)
        return _Tally(
            method=method,
            turns_wanted=self._schedule.turns(max(_slowest_s(turn))),
            bound_s=bound_s,
            queue=watch.deepest(turn.started_s, ended_s, margin_s=QUEUE_PERIOD_S),
            in_a_row=self._schedule.operations(size_bytes) > 1,
            processor=self._processor,
        )

    async def _warm_up(self, method: Method, size_bytes: int, bound_s: float | None) -> None:
        """Take untimed turns until all of a method's memory has been used once.

        innet keeps the tensors of several operations; only their first use causes page faults. A
        slow method takes fewer turns.
        """
        begun_s = time.monotonic()
        for _ in range(WARM_UP_TURNS):
            await self._take_turn(method, size_bytes, bound_s)
            if time.monotonic() - begun_s > WARM_UP_BUDGET_S:
                return

    async def _time(self, number: int, size_bytes: int, tallies: Sequence[_Tally]) -> None:
        """Take the timed turns, in rounds of all methods."""
        rounds = max((tally.turns_wanted for tally in tallies), default=0)
        for completed, tally in alternating(tallies, lambda tally: tally.turns_wanted):
            if tally.method not in self._methods:
                continue
            what = f"{rounded_size(size_bytes)} {tally.method.name}"
            self._tell(number, (completed + 1) / (rounds + 1), what)
            try:
                await self._time_once(tally, size_bytes)
            except EmulationError as error:
                await self._give_up(tally.method, size_bytes, error)

    async def _time_once(self, tally: _Tally, size_bytes: int) -> None:
        probe = self._teams.probe
        links, nodes = await probe.links(), await probe.nodes()
        turn = await self._take_turn(tally.method, size_bytes, tally.bound_s)
        nodes_after = await probe.nodes()
        tally.traffic.add(links, await probe.links())
        tally.samples_s += _slowest_s(turn)
        tally.operations += self._schedule.operations(size_bytes)
        tally.correct &= all(result.correct for result in turn.results)
        tally.retransmissions += nodes_after.retransmissions - nodes.retransmissions
        tally.retransmissions += sum(result.tcp_retransmissions for result in turn.results)
        tally.packets += nodes_after.packets - nodes.packets
        tally.calls += nodes_after.calls - nodes.calls
        tally.cpu_s += nodes_after.switch_cpu_s - nodes.switch_cpu_s
        tally.cpu_s += sum(result.cpu_s for result in turn.results)
        tally.machine_cpu_s += turn.machine_cpu_s

    async def _take_turn(
        self, method: Method, size_bytes: int, bound_s: float | None
    ) -> Turn[AllreduceResult]:
        team = await self._teams.team(method.contender)
        task = AllreduceTask(
            call=method.call,
            size_bytes=size_bytes,
            operations=self._schedule.operations(size_bytes),
        )
        deadline_s = self._schedule.deadline_s(size_bytes, bound_s)
        return await team.take_turn(task, AllreduceResult, deadline_s)

    async def _give_up(self, method: Method, size_bytes: int, error: EmulationError) -> None:
        self._methods.remove(method)
        reason = await self._teams.drop(method, error)
        self.failures.append(Failure(method=method.name, size_bytes=size_bytes, reason=reason))

    def _tell(self, number: int, fraction_of_size: float, text: str) -> None:
        self._progress((number + fraction_of_size) / len(self._schedule.sizes_bytes), text)


def _slowest_s(turn: Turn[AllreduceResult]) -> list[float]:
    """The time of the slowest rank in each reported operation."""
    by_rank = (result.durations_s for result in turn.results)
    return [max(of_ranks) for of_ranks in zip(*by_rank, strict=True)]
