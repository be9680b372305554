"""What a gradient takes to be summed over 8 hosts, as it is and in fewer bytes.

python benchmarks/compression.py --json

One operation of `Communicator` per method, encoding and decoding included, in turns; the time of
the rank that took longest. The gradient is random, the same on no two ranks.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from innet.compare.benchmark import Benchmark, Figures, argument_parser, quantity
from innet.compare.progress import ProgressBar
from innet.errors import EmulationError
from innet.launch import Session
from innet.topology import load_topology
from innet.topology.quantities import parse_rate_bps, parse_size_bytes

TOP_K_RATIO = 0.01
WARM_UP_TURNS = 1
_PROGRAM = str(Path(__file__).resolve())
_WORKER = "--worker"
_RESULT = "figures: "


def main() -> None:
    """Measure and print."""
    if _WORKER in sys.argv:
        _measure_in_worker(int(sys.argv[-2]), int(sys.argv[-1]))
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
        lines: list[str] = []
        topology = load_topology("star8").with_overrides(rate_bps=arguments.rate)
        async with Session(
            topology, mode=arguments.mode, output=lambda _label, line: lines.append(line)
        ) as session:
            program = [sys.executable, _PROGRAM, _WORKER, str(size_bytes), str(turns)]
            await session.run_workers(program, algorithm="inc")
        for line in lines:
            if line.startswith(_RESULT):
                figures: Figures = json.loads(line.removeprefix(_RESULT))
                return {
                    **figures,
                    "size_bytes": size_bytes,
                    "rate_bps": arguments.rate,
                    "mode": arguments.mode,
                }
        raise EmulationError("the workers gave no figures: " + "; ".join(lines))

    benchmark.run(measure)


def _measure_in_worker(size_bytes: int, turns: int) -> None:
    import numpy as np

    import innet

    comm = innet.init()
    elements = size_bytes // 4
    gradient = np.random.default_rng(comm.rank).standard_normal(elements).astype(np.float32)
    out = np.empty_like(gradient)
    methods = _methods(comm, gradient, out)
    times_s: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(WARM_UP_TURNS + turns):
        for name, run in methods.items():
            comm.barrier()
            start_s = time.perf_counter()
            run()
            taken_s = np.array([time.perf_counter() - start_s])
            longest_s = float(comm.allreduce(taken_s, "max")[0])
            if turn >= WARM_UP_TURNS:
                times_s[name].append(longest_s)
    if comm.rank == 0:
        medians_s = {name: statistics.median(times) for name, times in times_s.items()}
        figures = {f"{name}_s": value for name, value in medians_s.items()}
        plain_s = medians_s["f32"]
        figures |= {
            f"speedup_{name}": plain_s / taken for name, taken in medians_s.items() if name != "f32"
        }
        print(_RESULT + json.dumps(figures))
    comm.close()


def _methods(comm: Any, gradient: Any, out: Any) -> dict[str, Callable[[], object]]:
    """By what is on the wire: from f32 in to f32 out."""
    import numpy as np

    size = gradient.size
    count = max(1, int(size * TOP_K_RATIO))

    def in_sixteen_bits() -> None:
        half = gradient.astype(np.float16)
        comm.allreduce(half, out=half)
        out[:] = half

    def largest() -> None:
        top = np.argpartition(np.abs(gradient), size - count)[size - count :]
        comm.allreduce_sparse(top, gradient[top], size)

    return {
        "f32": lambda: comm.allreduce(gradient, out=out),
        "f16": in_sixteen_bits,
        "q8": lambda: comm.allreduce_q8(gradient, out=out),
        "topk_1_percent": largest,
    }


if __name__ == "__main__":
    main()
