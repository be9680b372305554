"""The step time of a GPT on star8 under DistributedDataParallel, over innet and over Gloo.

python benchmarks/torch_step.py --json
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps
from innet.topology import load_topology
from shared.benchmark import Benchmark, Figures, argument_parser

HERE = Path(__file__).parent
WORKER = HERE / "workers" / "torch_step.py"
APPS = HERE.parent / "apps"


@dataclass(frozen=True)
class Job:
    """One training over links of one rate.

    Attributes:
        suffix: of the keys of what it gives.
        rate: of all links.
        configuration: of the worker.
        turn: so many times the usual steps make a turn: short ones differ more from each other.
        is_quick: whether it is part of a quick run.
    """

    suffix: str
    rate: str
    configuration: str
    turn: int = 1
    is_quick: bool = True


JOBS = (
    Job("200mbit", "200mbit", "communication"),
    Job("200mbit_wide", "200mbit", "communication_wide", is_quick=False),
    Job("1gbit", "1gbit", "communication"),
    Job("compute_bound", "1gbit", "compute", turn=3),
)


async def run_jobs(
    rate: str, jobs: list[Job], rounds: int, steps: int, advance: Callable[[], None]
) -> dict[str, dict[str, Any]]:
    """The worker's ``Samples`` of each job, by its suffix.

    One network and one set of processes serve them all: starting them takes longer than a round.

    Args:
        rate: of all links, and that of each job.
        jobs: what the processes train, one after the other.
        rounds: of each job.
        steps: in a turn.
        advance: is called after each round.
    """
    topology = load_topology("star8").with_overrides(rate_bps=parse_rate_bps(rate))
    trainings = [
        option
        for job in jobs
        for option in ("--configuration", job.configuration, "--steps", str(steps * job.turn))
    ]

    def show(_label: str, line: str) -> None:
        if line == "round":
            advance()

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "samples.json"
        async with Session(topology, mode="netns", output=show) as session:
            await session.run_workers(
                [
                    *(sys.executable, str(WORKER), *trainings),
                    *("--rounds", str(rounds), "--output", str(output)),
                ],
                env={"PYTHONPATH": str(APPS), "OMP_NUM_THREADS": "1"},
            )
        by_configuration: dict[str, dict[str, Any]] = json.loads(output.read_text())
    samples = {job.suffix: by_configuration[job.configuration] for job in jobs}
    for suffix, found in samples.items():
        if not found["same_bits"]:
            raise EmulationError(f"ranks ended with different parameters: {suffix}")
    return samples


def figures_of(samples: dict[str, Any], suffix: str) -> Figures:
    """Medians, spread and ratios of one job."""
    figures: Figures = {}
    for kind in ("step", "waited", "cpu", "allreduce"):
        for name, values_s in samples[f"{kind}_s"].items():
            key = f"{'compute' if name == 'none' else name}_{kind}"
            figures[f"{key}_s_{suffix}"] = statistics.median(values_s)
            if kind == "step":
                figures[f"{key}_min_s_{suffix}"] = min(values_s)
                figures[f"{key}_max_s_{suffix}"] = max(values_s)
    # Neighbouring turns have the same of whatever else the machine does.
    pairs = zip(samples["step_s"]["gloo"], samples["step_s"]["innet"], strict=True)
    figures[f"speedup_{suffix}"] = statistics.median(gloo / own for gloo, own in pairs)
    for name in ("innet", "gloo"):
        exposed_s = figures[f"{name}_step_s_{suffix}"] - figures[f"compute_step_s_{suffix}"]
        hidden = 1 - exposed_s / figures[f"{name}_allreduce_s_{suffix}"]
        figures[f"hidden_share_{name}_{suffix}"] = min(1.0, hidden)
    figures[f"gradient_bytes_{suffix}"] = samples["gradient_bytes"]
    return figures


def main() -> None:
    """Measure and print."""
    parser = argument_parser("step time of a GPT on star8, over innet and over Gloo")
    parser.add_argument("--rounds", type=int, help="turns of each backend; default 9, quick: 3")
    parser.add_argument(
        "--steps",
        type=int,
        help="in a turn, and three times as many where computing dominates; default 3, quick: 1",
    )
    parser.add_argument(
        "--only",
        choices=[job.suffix for job in JOBS],
        help="one part instead of all four; quick: all but 200mbit_wide",
    )
    arguments = parser.parse_args()
    rounds = arguments.rounds or (3 if arguments.quick else 9)
    steps = arguments.steps or (1 if arguments.quick else 3)
    jobs = [
        job
        for job in JOBS
        if arguments.only == job.suffix
        or (arguments.only is None and (job.is_quick or not arguments.quick))
    ]
    benchmark = Benchmark("torch_step", arguments, deadline_s=420 if arguments.quick else 1800)

    async def measure(progress: ProgressBar) -> Figures:
        figures: Figures = {"rounds": rounds, "steps": steps}
        done = 0

        def advance() -> None:
            nonlocal done
            done += 1
            job = jobs[min((done - 1) // rounds, len(jobs) - 1)]
            progress(done / (rounds * len(jobs)), f"{job.configuration} at {job.rate}")

        for rate, group in groupby(jobs, key=lambda job: job.rate):
            for suffix, samples in (
                await run_jobs(rate, list(group), rounds, steps, advance)
            ).items():
                figures |= figures_of(samples, suffix)
                if arguments.save is not None:
                    arguments.save.mkdir(parents=True, exist_ok=True)
                    path = arguments.save / f"torch_step-{suffix}.json"
                    path.write_text(json.dumps(samples, indent=2))
        return figures

    benchmark.run(measure)


if __name__ == "__main__":
    main()
