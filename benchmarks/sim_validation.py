"""The same allreduces on small topologies in local mode, in network namespaces and simulated.

python benchmarks/sim_validation.py --quick --json
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Self

import psutil
from rich.console import Console
from rich.table import Table

from innet.lab.compare.measurement import Comparison, Machine
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import WARM_UP_TURNS, Schedule, compare
from innet.lab.experiment.outcome import outcome
from innet.lab.experiment.sweep import RunOptions, make_tasks, sweep
from innet.lab.workload import load_workload
from innet.node.node_config import Mode
from innet.quantities import parse_rate_bps, rounded_duration, rounded_size
from innet.settings import Settings
from innet.topology import Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, measured, quantity

ALGORITHMS = ("inc", "ring", "ps")
MODES: tuple[Mode, ...] = ("local", "netns")
AIM = 0.05
BUSY_SHARE = 0.5
"""Of the cores' time, from which on a real run waits for them, and not for its links alone."""

_REPETITIONS = 5
_PAUSE = "200ms"  # as between the turns of a comparison: queues are empty, token buckets are full
_NAPS = 300
_NAP_S = 1e-3


def main() -> None:
    """Measure and print."""
    parser = argument_parser("simulated times against those of local mode and network namespaces")
    parser.add_argument(
        "--topologies", nargs="+", help="default star:4 star:8 leaf-spine:2x2x2, quick: star:4"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="100mbit")
    arguments = parser.parse_args()
    quick = arguments.quick
    names = arguments.topologies or (
        ["star:4"] if quick else ["star:4", "star:8", "leaf-spine:2x2x2"]
    )
    size_bytes = (2 if quick else 4) << 20
    benchmark = Benchmark("sim_validation", arguments, deadline_s=120 if quick else 900)
    lateness_s = wake_up_lateness_s()

    async def measure(progress: ProgressBar) -> Figures:
        pairs: list[Figures] = []
        for name in names:
            topology = load_topology(name).with_overrides(rate_bps=arguments.rate)
            late = topology.with_overrides(jitter_s=lateness_s)
            for mode in arguments.modes:
                before = ProcessorTimes.now()
                real = await compare(
                    topology,
                    mode=mode,
                    algorithms=ALGORITHMS,
                    baselines=(),
                    schedule=Schedule((size_bytes,), _REPETITIONS),
                    progress=progress,
                    output=lambda _label, _line: None,
                )
                others_share = ProcessorTimes.now().others_share_since(before)
                simulated = await asyncio.to_thread(_simulated, late, mode, size_bytes)
                found = _pairs(mode, size_bytes, real, simulated)
                pairs += [pair | {"others_share": others_share} for pair in found]
        _print(pairs)
        worst = max(pairs, key=lambda pair: abs(pair["difference"]))
        return {
            "largest_difference": abs(worst["difference"]),
            "largest_of": f"{worst['topology']} {worst['mode']} {worst['algorithm']}",
            "compared": len(pairs),
            "within_aim": sum(abs(pair["difference"]) <= AIM for pair in pairs),
            "pairs": pairs,
            "rate_bps": arguments.rate,
            "lateness_s": lateness_s,
        }

    benchmark.run(measure)


@dataclass(frozen=True)
class ProcessorTimes:
    """Seconds that the machine's cores have had, and what became of them."""

    all_s: float
    busy_s: float
    own_s: float
    """Of this process, and of those it has started that have ended."""

    @classmethod
    def now(cls) -> Self:
        """Since the machine's start."""
        times = psutil.cpu_times()
        idle_s = times.idle + times.iowait
        own = os.times()
        return cls(
            all_s=sum(times[:8]),  # the rest, of guests, is in the others already
            busy_s=sum(times[:8]) - idle_s,
            own_s=own.user + own.system + own.children_user + own.children_system,
        )

    def others_share_since(self, before: Self) -> float:
        """The share of the cores' time that other programs took."""
        others_s = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return max(0.0, others_s / (self.all_s - before.all_s))


def wake_up_lateness_s() -> float:
    """How late this machine wakes up a thread whose time has come, at most, most of the time.

    Links are simulated with that much jitter, as a packet waits for the process that takes it.
    It is twice the median, for half of it is the mean of a delay between nothing and all.
    """

    def nap() -> float:
        begun_s = time.monotonic()
        time.sleep(_NAP_S)
        return time.monotonic() - begun_s - _NAP_S

    return 2 * statistics.median(nap() for _ in range(_NAPS))


def _simulated(topology: Topology, mode: Mode, size_bytes: int) -> Comparison:
    workload = load_workload(
        f"allreduce:4,warm-up={WARM_UP_TURNS + 1},repetitions={_REPETITIONS},pause={_PAUSE}"
    )
    tasks = make_tasks(
        topology,
        workload,
        algorithms=ALGORITHMS,
        sizes_bytes=(size_bytes,),
        options=RunOptions(like=mode),
    )
    runs = sweep(tasks, processes=1, progress=lambda _standing: None)
    return outcome(topology, workload.name, Settings(), Machine.here(), runs)


def _pairs(mode: Mode, size_bytes: int, real: Comparison, simulated: Comparison) -> list[Figures]:
    return [
        {
            "topology": real.topology,
            "mode": mode,
            "algorithm": there.method,
            "size_bytes": size_bytes,
            "real_s": there.median_s,
            "real_p10_s": there.p10_s,
            "real_p90_s": there.p90_s,
            "simulated_s": here.median_s,
            "bound_s": there.bound_s,
            "difference": here.median_s / there.median_s - 1.0,
            "processor_share": there.cpu_s / there.median_s / real.machine.cores,
        }
        for there, here in zip(
            measured(real, ALGORITHMS, size_bytes),
            measured(simulated, ALGORITHMS, size_bytes),
            strict=True,
        )
    ]


def _print(pairs: list[Figures]) -> None:
    table = Table(title=f"simulated by real time; aim: within {AIM:.0%}", title_justify="left")
    for heading in ("topology", "mode", "size", "algorithm", "real", "p10 to p90", "simulated",
                    "difference", "processor", "others"):  # fmt: skip
        table.add_column(heading)
    for pair in pairs:
        spread = f"{rounded_duration(pair['real_p10_s'])} to {rounded_duration(pair['real_p90_s'])}"
        table.add_row(
            pair["topology"],
            pair["mode"],
            rounded_size(pair["size_bytes"]),
            pair["algorithm"],
            rounded_duration(pair["real_s"]),
            spread,
            rounded_duration(pair["simulated_s"]),
            f"{pair['difference']:+.1%}",
            f"{pair['processor_share']:.0%}",
            f"{pair['others_share']:.0%}",
            style="" if abs(pair["difference"]) <= AIM else "bold red",
        )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    busy = [pair for pair in pairs if pair["processor_share"] + pair["others_share"] > BUSY_SHARE]
    if busy:
        console.print(
            f"{len(busy)} of {len(pairs)} real runs and other programs took more than "
            f"{BUSY_SHARE:.0%} of the processors' time: a real run then waits for a processor, "
            "too, and a simulation does not. End other programs, or choose a lower --rate."
        )


if __name__ == "__main__":
    main()
