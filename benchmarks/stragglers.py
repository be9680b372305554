"""Step time with slow workers, waiting for all ranks and for k of n.

python benchmarks/stragglers.py --json

Eight ranks on one switch compute for 20 ms a step (a pause: each rank stands for a machine of its
own) and reduce a gradient. Once the last rank takes five times as long in all steps, and seven of
eight ranks are enough (backup workers); once every rank does in 5 % of its steps, and six of eight
are enough. There, a rank that is late offers the same gradient again until it is taken. Last,
ranks compute every step, as DistributedDataParallel does, and late gradients are added to the next.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from innet import Session, load_topology
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.settings import Settings
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

WORKER = Path(__file__).parent / "workers" / "stragglers.py"
KINDS = ("always_slow", "slow_at_times", "slow_at_times_every_step")
COMPUTE_S = 0.02
SLOW_FACTOR = 5.0
DEADLINE_S = COMPUTE_S / 2
"""After the first rank was ready, where ranks compute every step."""
OPERATIONS_IN_FLIGHT = 16
"""How far ranks may run ahead of one that is late."""


def figures_of(found: dict[str, Any], turns: int, steps: int) -> Figures:
    """Medians and tails of the steps, and steps a second with and without waiting for all."""
    figures: Figures = {}
    for kind in KINDS:
        for name in ("all", "k_of_n"):
            key = f"{kind}_{name}"
            step_s = np.array(found["step_s"][key])
            for percent in (50, 90, 99):
                figures[f"{key}_p{percent}_s"] = float(np.percentile(step_s, percent))
            figures[f"{key}_steps_per_s"] = 1 / float(step_s.mean())
            figures[f"{key}_gradients_per_step"] = sum(found["computed"][key]) / (turns * steps)
        figures[f"{kind}_speedup"] = (
            figures[f"{kind}_k_of_n_steps_per_s"] / figures[f"{kind}_all_steps_per_s"]
        )
    return figures


def main() -> None:
    """Measure and print."""
    parser = argument_parser("step time with slow workers: waiting for all, and for k of n")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="1gbit")
    parser.add_argument("--size", type=quantity(parse_size_bytes), default="256KiB")
    parser.add_argument("--mode", choices=("local", "netns"), default="local")
    arguments = parser.parse_args()
    turns, steps = (2, 60) if arguments.quick else (5, 100)
    benchmark = Benchmark("stragglers", arguments, deadline_s=120 if arguments.quick else 300)
    star = load_topology("star8").with_overrides(rate_bps=arguments.rate)
    settings = Settings().with_assignments(
        [f"collectives.operations_in_flight={OPERATIONS_IN_FLIGHT}"]
    )

    async def measure(_progress: ProgressBar) -> Figures:
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "found.json"
            async with Session(star, mode=arguments.mode, settings=settings) as session:
                await session.run_workers(
                    [
                        *(sys.executable, str(WORKER), "--elements", str(arguments.size // 4)),
                        *("--compute-s", str(COMPUTE_S), "--slow-factor", str(SLOW_FACTOR)),
                        *("--deadline-s", str(DEADLINE_S), "--turns", str(turns)),
                        *("--steps", str(steps), "--output", str(output)),
                    ]
                )
            found = json.loads(output.read_text())
        if not found["same_bits"]:
            raise EmulationError("ranks ended with different weights")
        return figures_of(found, turns, steps) | {
            "operations_in_flight": OPERATIONS_IN_FLIGHT,
            "compute_s": COMPUTE_S,
            "slow_factor": SLOW_FACTOR,
            "mode": arguments.mode,
            "rate_bps": arguments.rate,
            "size_bytes": arguments.size,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
