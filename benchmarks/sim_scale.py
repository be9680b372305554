"""How large a network the simulator carries: 100 MB summed over 1,024 hosts of a fat tree.

python benchmarks/sim_scale.py --json
python benchmarks/sim_scale.py --topology fat-tree:36 --size 1MB --algorithm inc:roots=core0
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from innet.errors import SimulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_size_bytes
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

WORKER = Path(__file__).parent / "workers" / "simulated_allreduce.py"


def main() -> None:
    """Simulate in a process of its own, whose memory and time are told."""
    parser = argument_parser("wall time and memory of a simulated allreduce, on one core")
    parser.add_argument("--topology", default=None, help="default fat-tree:16, quick fat-tree:8")
    parser.add_argument(
        "--size", type=quantity(parse_size_bytes), default=None, help="per rank; default 100MB"
    )
    parser.add_argument("--algorithm", default="inc", help="default inc")
    parser.add_argument(
        "--virtual-scale", type=int, default=1000, help="bytes that each one stands for"
    )
    arguments = parser.parse_args()
    benchmark = Benchmark("sim_scale", arguments, deadline_s=900)
    topology = arguments.topology or ("fat-tree:8" if arguments.quick else "fat-tree:16")
    size_bytes = arguments.size or 100_000_000

    async def measure(_progress: ProgressBar) -> Figures:
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            str(WORKER),
            topology,
            str(size_bytes),
            str(arguments.virtual_scale),
            arguments.algorithm,
            stdout=subprocess.PIPE,
        )
        try:
            output, _ = await worker.communicate()
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.wait()
        if worker.returncode != 0:
            raise SimulationError(f"the simulation ended with {worker.returncode}; see above")
        return dict(json.loads(output))

    benchmark.run(measure)


if __name__ == "__main__":
    main()
