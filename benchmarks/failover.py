"""A spine of leaf-spine-16 is killed: how soon operations end again, and what that costs links.

python benchmarks/failover.py --json

Sixteen hosts sum an array again and again over kernel-shaped links. In the middle of an operation
one of the two spines gets SIGKILL; the launcher starts it again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from innet import Session, load_topology
from innet.errors import ControlError, EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.settings import Settings
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

WORKER = Path(__file__).parent / "workers" / "failover.py"
SPINE = "spine0"
CALM_OPERATIONS = 5
"""Operations before each kill, to compare with."""
POLL_S = 0.01


@dataclass
class Watched:
    """A session with the job on it, and when each operation ended on the last of its ranks.

    Attributes:
        ends_s: on the monotonic clock, by the operation's number.
    """

    session: Session
    ends_s: list[float] = field(default_factory=list)
    _ranks: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, _label: str, line: str) -> None:
        """A line that a worker has printed."""
        if not line.startswith("ended "):
            return
        _, number, end_s = line.split()
        ends_s = self._ranks[int(number)]
        ends_s.append(float(end_s))
        if len(ends_s) == len(self.session.topology.hosts):
            self.ends_s.append(max(ends_s))
            self._changed.set()

    async def until_ended(self, operations: int) -> None:
        """Wait for so many operations since the beginning."""
        while len(self.ends_s) < operations:
            self._changed.clear()
            await self._changed.wait()

    def durations_s(self) -> list[float]:
        """From the end of one operation to that of the next."""
        return [b - a for a, b in zip(self.ends_s, self.ends_s[1:], strict=False)]

    async def busiest_link_bytes(self) -> dict[str, int]:
        """Bytes that each direction of each link has carried so far."""
        counters = await self.session.network.link_counters()
        return {str(link): counted.bytes for link, counted in counters.items()}


@dataclass(frozen=True)
class Failover:
    """One kill.

    Attributes:
        calm_s: time of an operation before it.
        next_operation_s: from the kill to the end of the operation that it met.
        back_s: from the kill until the spine has made a sum again.
        calm_bytes: on the busiest link, for each operation before the kill.
        outage_bytes: likewise, between the kill and the return.
    """

    calm_s: float
    next_operation_s: float
    back_s: float
    calm_bytes: float
    outage_bytes: float


def main() -> None:
    """Measure and print."""
    parser = argument_parser("a spine of leaf-spine-16 dies in the middle of an allreduce")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="200mbit")
    parser.add_argument("--size", type=quantity(parse_size_bytes), default="2MiB")
    arguments = parser.parse_args()
    benchmark = Benchmark("failover", arguments, deadline_s=240)

    async def measure(progress: ProgressBar) -> Figures:
        return await _measure(arguments, progress)

    benchmark.run(measure)


async def _measure(arguments: argparse.Namespace, progress: ProgressBar) -> Figures:
    kills = 1 if arguments.quick else 3
    topology = load_topology("leaf-spine-16").with_overrides(rate_bps=arguments.rate)
    settings = Settings().with_assignments([f"recovery.switch_restarts={kills}"])
    with tempfile.TemporaryDirectory() as directory:
        stop_file = Path(directory) / "stop"
        command = [sys.executable, str(WORKER), str(arguments.size), str(stop_file)]
        watched: Watched
        async with Session(
            topology,
            mode="netns",
            settings=settings,
            output=lambda label, line: watched.hear(label, line),
        ) as session:
            watched = Watched(session)
            job = asyncio.ensure_future(session.run_workers(command, algorithm="inc"))
            measuring = asyncio.ensure_future(_fail_over(watched, kills))
            await asyncio.wait([job, measuring], return_when=asyncio.FIRST_COMPLETED)
            stop_file.touch()
            await job
            failovers = await measuring
    return _figures(failovers) | {
        "rate_bps": arguments.rate,
        "size_bytes": arguments.size,
        "kills": kills,
    }


async def _fail_over(watched: Watched, kills: int) -> list[Failover]:
    return [await _kill_once(watched) for _ in range(kills)]


async def _kill_once(watched: Watched) -> Failover:
    begun = len(watched.ends_s)
    await watched.until_ended(begun + 1)
    bytes_before = await watched.busiest_link_bytes()
    await watched.until_ended(begun + 1 + CALM_OPERATIONS)
    bytes_calm = await watched.busiest_link_bytes()
    calm_s = statistics.median(watched.durations_s()[-CALM_OPERATIONS:])
    await asyncio.sleep(calm_s / 2)
    met = len(watched.ends_s)
    killed_s = time.monotonic()
    os.kill(_pid(watched.session), signal.SIGKILL)
    await watched.until_ended(met + 1)
    await asyncio.to_thread(_wait_until_it_adds, watched.session)
    back_s = time.monotonic()
    bytes_back = await watched.busiest_link_bytes()
    return Failover(
        calm_s,
        watched.ends_s[met] - killed_s,
        back_s - killed_s,
        _most(bytes_before, bytes_calm) / CALM_OPERATIONS,
        _most(bytes_calm, bytes_back) / (len(watched.ends_s) - begun - 1 - CALM_OPERATIONS),
    )


def _most(before: dict[str, int], after: dict[str, int]) -> int:
    return max(after[link] - before[link] for link in before)


def _pid(session: Session) -> int:
    for process in session.network.processes.processes:
        if process.label == SPINE and process.returncode is None:
            return process.identity.pid
    raise EmulationError(f"{SPINE} does not run")


def _wait_until_it_adds(session: Session) -> None:
    while _sums(session) == 0:
        time.sleep(POLL_S)


def _sums(session: Session) -> int:
    try:
        with session.connect(SPINE) as client:
            status = client.request("status", timeout_s=0.5)
    except ControlError:
        return 0
    made: int = status["reducer"]["reductions_completed"]
    return made


def _figures(failovers: list[Failover]) -> Figures:
    def median(name: str) -> float:
        return float(statistics.median(getattr(failover, name) for failover in failovers))

    return {
        "operation_s": median("calm_s"),
        "next_operation_s": median("next_operation_s"),
        "next_operation_max_s": max(failover.next_operation_s for failover in failovers),
        "traffic_back_s": median("back_s"),
        "busiest_link_bytes_per_operation": median("calm_bytes"),
        "busiest_link_bytes_per_operation_in_outage": median("outage_bytes"),
    }


if __name__ == "__main__":
    main()
