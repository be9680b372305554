"""Many seeds, one after the other or on several processors."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.swarm.draw import scenario_from_seed
from tests.swarm.execution import Execution

_SLOW_S = 5.0


@dataclass(frozen=True)
class SeedResult:
    """What came of one seed."""

    seed: int
    problems: tuple[str, ...]
    operations: int
    failed_operations: int
    packets: int
    wall_s: float


@dataclass
class Summary:
    """What came of many seeds.

    Attributes:
        failures: those with problems.
        slow: those that took more than a few seconds of the machine.
    """

    seeds: int = 0
    operations: int = 0
    failed_operations: int = 0
    packets: int = 0
    failures: list[SeedResult] = field(default_factory=list)
    slow: list[SeedResult] = field(default_factory=list)

    def add(self, result: SeedResult) -> None:
        """Count one more."""
        self.seeds += 1
        self.operations += result.operations
        self.failed_operations += result.failed_operations
        self.packets += result.packets
        if result.problems:
            self.failures.append(result)
        if result.wall_s > _SLOW_S:
            self.slow.append(result)

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {self.operations} operations of ranks, "
            f"{self.failed_operations} ended with an excused error, {self.packets} packets, "
            f"{len(self.failures)} seeds failed"
        )


def _spare_the_collector() -> None:
    """What imports have made stays; looking through it again and again costs a tenth of a sweep."""
    gc.collect()
    gc.freeze()


def run_seed(seed: int) -> SeedResult:
    """Run what ``seed`` stands for; a scenario that cannot be set up is a problem, too."""
    began_s = time.monotonic()
    try:
        outcome = Execution(scenario_from_seed(seed)).run()
    except Exception as error:
        problems = (f"cannot be set up: {type(error).__name__}: {error}",)
        return SeedResult(seed, problems, 0, 0, 0, time.monotonic() - began_s)
    return SeedResult(
        seed,
        tuple(outcome.problems),
        outcome.operations,
        outcome.failed_operations,
        outcome.packets,
        time.monotonic() - began_s,
    )


def sweep(
    seeds: Iterable[int], jobs: int = 1, each: Callable[[SeedResult], None] = lambda result: None
) -> Summary:
    """Run all ``seeds`` in ``jobs`` processes; ``each`` hears of every one as it ends."""
    _spare_the_collector()
    summary = Summary()
    for result in _results(seeds, jobs):
        summary.add(result)
        each(result)
    return summary


def _results(seeds: Iterable[int], jobs: int) -> Iterator[SeedResult]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    # Each from scratch: what an import has started in this process is not theirs.
    context = multiprocessing.get_context("spawn")
    processes = min(jobs, os.cpu_count() or 1)
    with context.Pool(processes, initializer=_spare_the_collector) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=4)
