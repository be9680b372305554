"""What masks cost: a sum over 8 hosts, plain and masked, in turns in one job.

python benchmarks/masking.py --json

f32 in and out. The masked sum is of as many bytes, beside its keys and shares; what it takes longer
is four more exchanges, and the processors' time for masks: all hosts here share two cores.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.topology import load_topology
from shared.benchmark import (
    Benchmark,
    Figures,
    argument_parser,
    measured_by_workers,
    quantity,
    report,
    times_in_turns_s,
    worker_arguments,
)


def main() -> None:
    """Measure and print."""
    given = worker_arguments()
    if given is not None:
        _measure_in_worker(*map(int, given))
        return
    parser = argument_parser("time of a sum on star8, plain and under masks")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="200mbit")
    parser.add_argument("--size", type=quantity(parse_size_bytes), default="4MiB")
    parser.add_argument("--mode", choices=("local", "netns"), default="local")
    parser.add_argument("--turns", type=int, help="default 9, quick: 3")
    arguments = parser.parse_args()
    turns = arguments.turns or (3 if arguments.quick else 9)
    benchmark = Benchmark("masking", arguments, deadline_s=120 if arguments.quick else 300)

    async def measure(_progress: ProgressBar) -> Figures:
        topology = load_topology("star8").with_overrides(rate_bps=arguments.rate)
        figures = await measured_by_workers(
            __file__, (arguments.size, turns), topology, mode=arguments.mode
        )
        return {
            **figures,
            "size_bytes": arguments.size,
            "rate_bps": arguments.rate,
            "mode": arguments.mode,
        }

    benchmark.run(measure)


def _measure_in_worker(size_bytes: int, turns: int) -> None:
    import numpy as np

    import innet

    comm = innet.init()
    sums = innet.MaskedSum(comm, limit=8.0)
    update = np.random.default_rng(comm.rank).standard_normal(size_bytes // 4).clip(-8, 8)
    update = update.astype(np.float32)
    tiny = update[:1]
    methods: dict[str, Callable[[int], object]] = {
        "plain": lambda _turn: comm.allreduce(update),
        "masked": lambda _turn: sums.allreduce(update),
        "plain_one_number": lambda _turn: comm.allreduce(tiny),
        "masked_one_number": lambda _turn: sums.allreduce(tiny),
    }
    times_s = times_in_turns_s(comm, methods, turns)
    sums.close()
    if comm.rank == 0:
        figures: Figures = {}
        for name, times in times_s.items():
            figures |= {
                f"{name}_s": statistics.median(times),
                f"{name}_min_s": min(times),
                f"{name}_max_s": max(times),
            }
        report(figures | {"slowdown": figures["masked_s"] / figures["plain_s"]})
    comm.close()


if __name__ == "__main__":
    main()
