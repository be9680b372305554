"""What telemetry costs: sums on star8 with the default telemetry, and without any.

python benchmarks/telemetry.py --json

Networks with and without telemetry are launched in turns, and the same job runs on each. Beside the
times, which vary more than telemetry costs, it tells the processor time of the threads that publish
and of the broker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innet import Session, load_topology
from innet.cluster.emulation.runs import find_run
from innet.cluster.run_broker import broker_of
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.settings import Settings
from innet.telemetry.messages import NodeCounters
from innet.telemetry.topics import node_topics
from innet.topology import Topology
from shared.benchmark import Benchmark, Figures, argument_parser, quantity, quartiles

WORKER = Path(__file__).parent / "workers" / "telemetry.py"
BROKERS = {"with": "embedded", "without": "none"}


@dataclass
class Turn:
    """One network, launched for one job.

    Attributes:
        start_s: until the network was up.
        reports: what each rank found.
        launcher_cores: processors that this process, with the broker in it, kept busy meanwhile.
        publishing_cores: and that the nodes' publishing did.
    """

    start_s: float = 0.0
    reports: list[dict[str, Any]] = field(default_factory=list)
    launcher_cores: float = 0.0
    publishing_cores: float = 0.0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    _began: tuple[float, float] = (0.0, 0.0)

    def hear(self, label: str, line: str) -> None:
        """A line that a process of the run has printed.

        Raises:
            EmulationError: a sum is wrong.
        """
        now = (time.process_time(), time.monotonic())
        if line == "begun" and not self.begun.is_set():
            self._began = now
            self.begun.set()
        elif line.startswith("{"):
            self.launcher_cores = (now[0] - self._began[0]) / (now[1] - self._began[1])
            self.reports.append(json.loads(line))
            if not self.reports[-1]["right"]:
                raise EmulationError(f"a sum is wrong on {label}")

    @property
    def operation_s(self) -> float:
        """The median time of a sum, of the rank that took longest each time."""
        by_operation = zip(*(report["took_s"] for report in self.reports), strict=True)
        return float(statistics.median(max(took_s) for took_s in by_operation))


async def latest_counters(session: Session) -> dict[str, NodeCounters]:
    """What the broker has retained of each node."""
    run_id = session.network.run_id
    found: dict[str, NodeCounters] = {}
    async with broker_of(find_run(run_id)).client() as client:
        await client.subscribe(node_topics(run_id, "+").counters)
        async for message in client.messages:
            counters = NodeCounters.model_validate_json(bytes(message.payload))
            found[counters.node] = counters
            if len(found) == len(session.topology.nodes):
                break
    return found


async def take_turn(topology: Topology, broker: str, arguments: argparse.Namespace) -> Turn:
    """Launch a network, run the job, and take the network down."""
    turn = Turn()
    settings = Settings().with_assignments([f"telemetry.broker={broker}"])
    began_s = time.monotonic()
    session = Session(topology, mode=arguments.mode, settings=settings, output=turn.hear)
    async with session:
        turn.start_s = time.monotonic() - began_s
        argv = [sys.executable, str(WORKER), str(arguments.size), str(arguments.operations)]
        job = asyncio.ensure_future(session.run_workers(argv, algorithm="inc"))
        begun = asyncio.ensure_future(turn.begun.wait())
        await asyncio.wait((job, begun), return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        before = {} if broker == "none" or job.done() else await latest_counters(session)
        await job
        after = await latest_counters(session) if before else {}
        turn.publishing_cores = sum(
            (after[node].telemetry_cpu_s - before[node].telemetry_cpu_s)
            / (after[node].time_s - before[node].time_s)
            for node in before
            if after[node].time_s > before[node].time_s
        )
    return turn


def figures(turns: dict[str, list[Turn]]) -> Figures:
    """Medians over the turns; ratios are between neighbours."""
    found: Figures = {}
    for name, taken in turns.items():
        found[f"{name}_s"] = statistics.median(turn.operation_s for turn in taken)
        found[f"{name}_start_s"] = statistics.median(turn.start_s for turn in taken)
    pairs = list(zip(turns["with"], turns["without"], strict=True))
    slowdowns = [a.operation_s / b.operation_s for a, b in pairs]
    found["slowdown"] = statistics.median(slowdowns)
    found["slowdown_p25"], found["slowdown_p75"] = quartiles(slowdowns)
    found["publishing_cores"] = statistics.median(turn.publishing_cores for turn in turns["with"])
    found["broker_cores"] = statistics.median(a.launcher_cores - b.launcher_cores for a, b in pairs)
    cores = os.cpu_count() or 1
    found["share_of_machine"] = (found["publishing_cores"] + found["broker_cores"]) / cores
    return found


def main() -> None:
    """Measure and print."""
    parser = argument_parser("sums on star8 with the default telemetry, and without any")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="1gbit")
    parser.add_argument("--size", type=quantity(parse_size_bytes), default="16MiB")
    parser.add_argument("--mode", choices=["netns", "local"], default="netns")
    parser.add_argument("--operations", type=int, default=30, help="sums of a turn; default 30")
    parser.add_argument("--turns", type=int, help="networks of each kind; default 7, quick: 2")
    arguments = parser.parse_args()
    turns = arguments.turns or (2 if arguments.quick else 7)
    benchmark = Benchmark("telemetry", arguments, deadline_s=60 + 30 * turns)

    async def measure(progress: ProgressBar) -> Figures:
        topology = load_topology("star8").with_overrides(rate_bps=arguments.rate)
        taken: dict[str, list[Turn]] = {name: [] for name in BROKERS}
        for number in range(turns):
            progress(number / turns, f"turn {number + 1} of {turns}")
            # Who is first changes, so that what grows or shrinks meanwhile favours nobody.
            for name in sorted(BROKERS, reverse=number % 2 == 1):
                taken[name].append(await take_turn(topology, BROKERS[name], arguments))
        return figures(taken) | {
            "rate_bps": arguments.rate,
            "size_bytes": arguments.size,
            "mode": arguments.mode,
            "turns": turns,
            "interval_s": Settings().telemetry.interval_s,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
