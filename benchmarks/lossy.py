"""What 1 % loss on every link costs in-network aggregation, against the same links without loss.

python benchmarks/lossy.py --json
"""

from __future__ import annotations

import statistics

from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sweep import Schedule, compare
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.topology import Topology, load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, measured, quantity

LOSS = 0.01
PASSES = 2


def main() -> None:
    """Measure and print."""
    parser = argument_parser("slowdown of in-network aggregation on star8 at 1 % loss")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="200mbit")
    parser.add_argument(
        "--size", type=quantity(parse_size_bytes), help="default 16MiB, quick: 4MiB"
    )
    parser.add_argument("--mode", choices=("local", "netns"), default="local")
    parser.add_argument("--algorithm", default="inc", help="of innet, default inc")
    arguments = parser.parse_args()
    size_bytes = arguments.size or (4 << 20 if arguments.quick else 16 << 20)
    benchmark = Benchmark("lossy", arguments, deadline_s=300 if arguments.quick else 600)
    star = load_topology("star8").with_overrides(rate_bps=arguments.rate)

    async def sample(topology: Topology, progress: ProgressBar, name: str) -> list[float]:
        comparison = await compare(
            topology,
            mode=arguments.mode,
            algorithms=(arguments.algorithm,),
            baselines=(),
            schedule=Schedule(sizes_bytes=(size_bytes,), repetitions=3 if arguments.quick else 5),
            progress=progress,
            output=lambda _label, _line: None,
        )
        benchmark.show(comparison, suffix=f"-{name}")
        (row,) = measured(comparison, (arguments.algorithm,), size_bytes)
        return row.samples_s

    async def measure(progress: ProgressBar) -> Figures:
        loss_free_s: list[float] = []
        lossy_s: list[float] = []
        # In turns: what else the machine does changes over minutes.
        for number in range(PASSES):
            loss_free_s += await sample(star, progress, f"loss-free-{number}")
            lossy_s += await sample(star.with_overrides(loss=LOSS), progress, f"lossy-{number}")
        medians_s = statistics.median(loss_free_s), statistics.median(lossy_s)
        return {
            "slowdown_at_1_percent": medians_s[1] / medians_s[0],
            "loss_free_s": medians_s[0],
            "lossy_s": medians_s[1],
            "mode": arguments.mode,
            "algorithm": arguments.algorithm,
            "rate_bps": arguments.rate,
            "size_bytes": size_bytes,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
