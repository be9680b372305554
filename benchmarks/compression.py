"""What a gradient takes to be summed over 8 hosts, as it is and in fewer bytes.

python benchmarks/compression.py --json

One operation of `Communicator` per method, encoding and decoding included, in turns; the time of
the rank that took longest. The gradient is random, the same on no two ranks. For sums of blocks it
is zero but for a part of its blocks, others on each rank, as an embedding's is; f32 takes as long
for that as for any other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

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

TOP_K_RATIO = 0.01
BLOCK_RATIO = 0.02


def main() -> None:
    """Measure and print."""
    given = worker_arguments()
    if given is not None:
        _measure_in_worker(*map(int, given))
        return
    parser = argument_parser("time of a gradient's sum on star8, by what is on the wire")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="200mbit")
    parser.add_argument(
        "--size", type=quantity(parse_size_bytes), help="default 16MiB, quick: 4MiB"
    )
    parser.add_argument("--mode", choices=("local", "netns"), default="local")
    arguments = parser.parse_args()
    size_bytes = arguments.size or (4 << 20 if arguments.quick else 16 << 20)
    turns = 3 if arguments.quick else 7
    benchmark = Benchmark("compression", arguments, deadline_s=120 if arguments.quick else 300)

    async def measure(_progress: ProgressBar) -> Figures:
        topology = load_topology("star8").with_overrides(rate_bps=arguments.rate)
        figures = await measured_by_workers(
            __file__, (size_bytes, turns), topology, mode=arguments.mode
        )
        return {
            **figures,
            "size_bytes": size_bytes,
            "rate_bps": arguments.rate,
            "mode": arguments.mode,
        }

    benchmark.run(measure)


def _measure_in_worker(size_bytes: int, turns: int) -> None:
    import numpy as np

    import innet

    comm = innet.init()
    elements = size_bytes // 4
    gradient = np.random.default_rng(comm.rank).standard_normal(elements).astype(np.float32)
    out = np.empty_like(gradient)
    times_s = times_in_turns_s(comm, _methods(comm, gradient, out), turns)
    if comm.rank == 0:
        medians_s = {name: statistics.median(times) for name, times in times_s.items()}
        figures = {f"{name}_s": value for name, value in medians_s.items()}
        plain_s = medians_s["f32"]
        figures |= {
            f"speedup_{name}": plain_s / taken for name, taken in medians_s.items() if name != "f32"
        }
        report(figures)
    comm.close()


def _methods(comm: Any, gradient: Any, out: Any) -> dict[str, Callable[[int], object]]:
    """By what is on the wire: from f32 in to f32 out."""
    import numpy as np

    from innet.collectives.keyed.pairs import SPARSE_BLOCKS

    size = gradient.size
    count = max(1, int(size * TOP_K_RATIO))

    width = SPARSE_BLOCKS.width
    blocks = np.random.default_rng(comm.rank).random(-(-size // width)) < BLOCK_RATIO
    mostly_zero = gradient * np.repeat(blocks, width)[:size]

    def in_sixteen_bits(_turn: int) -> None:
        half = gradient.astype(np.float16)
        comm.allreduce(half, out=half)
        out[:] = half

    def largest(_turn: int) -> None:
        top = np.argpartition(np.abs(gradient), size - count)[size - count :]
        comm.allreduce_sparse(top, gradient[top], size)

    return {
        "f32": lambda _turn: comm.allreduce(gradient, out=out),
        "f16": in_sixteen_bits,
        "q8": lambda _turn: comm.allreduce_q8(gradient, out=out),
        "topk_1_percent": largest,
        "blocks_2_percent": lambda _turn: comm.allreduce_blocks(mostly_zero, out=out),
    }


if __name__ == "__main__":
    main()
