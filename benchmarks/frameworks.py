"""The step time of training frameworks over innet and over Gloo, with the scripts in ``apps/``.

python benchmarks/frameworks.py --json

Links have no rate, and all ranks are processes of this machine. The jobs of a framework run one
after the other on one network, innet's and Gloo's in turns, with the same threads per rank.

Two models (``apps/with_frameworks/training.py``). The transformer is what ``apps/train_gpt.py``
trains on 8 hosts by default: 1.7 million parameters, 512 tokens per rank and step, 3,000 flop per
parameter. The perceptron has 330,000 parameters and 16 vectors per rank and step, 100 flop per
parameter: far less computation per byte of gradients than training has, so that its step shows the
communication. Its keys end in ``_communication_bound``.

At the end of a process over Gloo, PyTorch 2.13 sometimes waits forever (the thread that destroys
the group holds the GIL while it joins a thread of Gloo that needs the GIL) or aborts. Such a job
has reported its step time before: it is ended after a while, counted, and its result is used.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from innet.cluster.launch import Session
from innet.errors import EmulationError, JobFailed
from innet.lab.compare.progress import ProgressBar
from innet.lab.compare.sampling import read_nodes
from innet.topology import load_topology
from shared.benchmark import Benchmark, Figures, argument_parser

APPS = Path(__file__).parents[1] / "apps"
PACKAGES: Final = {
    "ddp": "torch",
    "trainer": "transformers",
    "fabric": "lightning",
    "lightning": "lightning",
}
"""What each framework needs installed."""
BACKENDS = ("gloo", "innet")
SUFFIXES: Final = {"transformer": "", "perceptron": "_communication_bound"}
"""By model: how its keys end."""
TRANSFORMER_SHARE = 5
"""The transformer takes this part of the perceptron's steps, each of which takes longer."""
AIM = 0.9
END_LIMIT_S: Final = 20.0
"""A job's time to end after it has reported its result."""
_RESULT = re.compile(r"loss=(\S+) step_ms=(\S+) cpu_ms=(\S+)")


@dataclass(frozen=True)
class Turn:
    """One job.

    Attributes:
        loss: at its end.
        step_s: median time of a step, on rank 0.
        rank_cpu_s: processor time of a step in rank 0's process.
        switch_cpu_s: processor time of the switches, over the whole job and divided by its steps.
    """

    loss: float
    step_s: float
    rank_cpu_s: float
    switch_cpu_s: float


class Frameworks:
    """Runs the scripts on one network.

    Attributes:
        unclean_ends: jobs of Gloo that aborted or hung after they had reported their result.
    """

    def __init__(self, ranks: int, steps: dict[str, int]) -> None:
        """
        Args:
            ranks: hosts of the star.
            steps: of a job, by model.
        """
        self._ranks = ranks
        self._steps = steps
        self._lines: list[str] = []
        self._result: re.Match[str] | None = None
        self._limit_s = 60 + 60 * ranks
        self._limit = asyncio.timeout(None)
        self.unclean_ends = 0

    def session(self) -> Session:
        """The network, to be entered by the caller."""
        return Session(load_topology(f"star:{self._ranks}"), output=self._note)

    async def turn(self, session: Session, framework: str, model: str, backend: str) -> Turn:
        """Train with one framework over one backend.

        Raises:
            EmulationError: a rank ended with an error, the job did not end, or the script reports
                nothing.
        """
        self._lines.clear()
        self._result = None
        steps = self._steps[model]
        script = APPS / f"with_{framework}.py"
        before = read_nodes(await session.status())
        try:
            async with asyncio.timeout(self._limit_s) as self._limit:
                await session.run_workers(
                    [
                        *(sys.executable, str(script)),
                        *("--backend", backend, "--steps", str(steps), "--model", model),
                    ]
                )
        except (JobFailed, TimeoutError) as error:
            if backend == "innet" or self._result is None:
                reason = str(error) or f"not done after {self._limit_s} s, and killed"
                raise EmulationError(
                    f"{script.name} over {backend}: {reason}; its last line is {self._lines[-1:]}"
                ) from error
            self.unclean_ends += 1
        after = read_nodes(await session.status())
        if self._result is None:
            raise EmulationError(f"{script.name} reports no step: " + "; ".join(self._lines))
        loss, step_ms, cpu_ms = map(float, self._result.groups())
        switch_cpu_s = (after.switch_cpu_s - before.switch_cpu_s) / steps
        return Turn(loss, step_ms / 1e3, cpu_ms / 1e3, switch_cpu_s)

    def _note(self, _label: str, line: str) -> None:
        self._lines.append(line)
        if self._result is None and (result := _RESULT.search(line)):
            self._result = result
            self._limit.reschedule(asyncio.get_running_loop().time() + END_LIMIT_S)


def figures_of(turns: dict[str, list[Turn]], key: str, suffix: str) -> Figures:
    """Medians, spread and the ratio of one framework and model with one number of ranks.

    Raises:
        EmulationError: the backends do not train to the same loss.
    """
    figures: Figures = {}
    for backend, taken in turns.items():
        times_s = [turn.step_s for turn in taken]
        name = f"{key}_{backend}"
        figures[f"{name}_step_s{suffix}"] = statistics.median(times_s)
        figures[f"{name}_step_min_s{suffix}"] = min(times_s)
        figures[f"{name}_step_max_s{suffix}"] = max(times_s)
        figures[f"{name}_rank_cpu_s{suffix}"] = statistics.median(turn.rank_cpu_s for turn in taken)
        switch_cpu_s = statistics.median(turn.switch_cpu_s for turn in taken)
        figures[f"{name}_switch_cpu_s{suffix}"] = switch_cpu_s
    # Neighbouring turns have the same of whatever else the machine does.
    pairs = list(zip(turns["gloo"], turns["innet"], strict=True))
    for gloo, innet in pairs:
        if abs(innet.loss - gloo.loss) > 1e-3 * abs(gloo.loss):
            raise EmulationError(
                f"{key}{suffix}: loss {innet.loss} over innet, {gloo.loss} over Gloo"
            )
    ratio = statistics.median(gloo.step_s / innet.step_s for gloo, innet in pairs)
    figures[f"{key}_ratio{suffix}"] = ratio
    return figures


def installed(names: Sequence[str]) -> list[str]:
    """Those of the frameworks that are installed; says on stderr which are not."""
    missing = [name for name in names if importlib.util.find_spec(PACKAGES[name]) is None]
    if missing:
        print(
            f"left out, because not installed: {', '.join(missing)} "
            "(pip install 'innet[frameworks]')",
            file=sys.stderr,
        )
    return [name for name in names if name not in missing]


def main() -> None:
    """Measure and print."""
    parser = argument_parser("step time of training frameworks over innet and over Gloo")
    parser.add_argument(
        "--ranks", type=int, nargs="+", help="numbers of hosts; default 2 4 8, quick: 2"
    )
    parser.add_argument("--rounds", type=int, help="jobs of each backend; default 5, quick: 2")
    parser.add_argument(
        "--steps", type=int, help="of a job with the perceptron; default 200, quick: 100"
    )
    parser.add_argument("--only", choices=PACKAGES, nargs="+", help="these frameworks alone")
    arguments = parser.parse_args()
    quick = arguments.quick
    ranks = arguments.ranks or ([2] if quick else [2, 4, 8])
    rounds = arguments.rounds or (2 if quick else 5)
    most = arguments.steps or (100 if quick else 200)
    steps = {"transformer": max(10, most // TRANSFORMER_SHARE), "perceptron": most}
    names = arguments.only or (["ddp", "trainer", "fabric"] if quick else list(PACKAGES))
    # Compiled modules are what users have: hundreds of modules are not compiled again by each rank.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    benchmark = Benchmark("frameworks", arguments, deadline_s=600 if quick else 3600)

    async def measure(progress: ProgressBar) -> Figures:
        frameworks = installed(names)
        figures: Figures = {"rounds": rounds, "steps": most, "aim": AIM, "gloo_unclean_ends": 0}
        cases = list(itertools.product(frameworks, SUFFIXES))
        jobs = len(ranks) * len(cases) * rounds * len(BACKENDS)
        done = 0
        for hosts in ranks:
            trainings = Frameworks(hosts, steps)
            async with trainings.session() as session:
                for name, model in cases:
                    turns: dict[str, list[Turn]] = {backend: [] for backend in BACKENDS}
                    for _, backend in itertools.product(range(rounds), BACKENDS):
                        progress(done / jobs, f"{name}, {model}, {hosts} hosts, {backend}")
                        turn = await trainings.turn(session, name, model, backend)
                        turns[backend].append(turn)
                        done += 1
                    figures |= figures_of(turns, f"{name}_{hosts}", SUFFIXES[model])
            figures["gloo_unclean_ends"] += trainings.unclean_ends
        for name, model in cases:
            ratio = f"ratio{SUFFIXES[model]}"
            figures[f"{name}_{ratio}"] = min(figures[f"{name}_{hosts}_{ratio}"] for hosts in ranks)
        return figures

    benchmark.run(measure)


if __name__ == "__main__":
    main()
