"""Four jobs at once on the switch of star8, against the same four one after the other.

python benchmarks/many_jobs.py --json
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.lab.compare.progress import ProgressBar
from innet.quantities import parse_rate_bps, parse_size_bytes
from innet.topology import load_topology
from shared.benchmark import Benchmark, Figures, argument_parser, quantity

JOBS = ("a", "b", "c", "d")
WORKER = Path(__file__).parent / "workers" / "many_jobs.py"
_SAMPLE_INTERVAL_S = 0.1


@dataclass(frozen=True, slots=True)
class Work:
    """What each job does: so many sums of one size."""

    size_bytes: int
    steps: int


class SlotUse:
    """The most slots of the switch that each job has used, and what it was guaranteed then."""

    def __init__(self, session: Session) -> None:
        self.most: dict[str, int] = {}
        self.guaranteed: dict[str, int] = {}
        self._session = session

    async def watch(self) -> None:
        """Read the switch until cancelled."""
        while True:
            status = await self._session.status()
            for part in status.get("s0", {}).get("jobs", []):
                job = part["prefix"][1:].partition(".")[0]
                self.most[job] = max(self.most.get(job, 0), part["slots_in_use_max"])
                guaranteed = self.guaranteed.get(job, part["slots_guaranteed"])
                self.guaranteed[job] = min(guaranteed, part["slots_guaranteed"] or guaranteed)
            await asyncio.sleep(_SAMPLE_INTERVAL_S)


async def run_jobs(session: Session, jobs: Sequence[str], work: Work) -> dict[str, float]:
    """Run ``jobs`` at once; when each ended, in seconds since the first began."""
    spans: dict[str, list[dict[str, float]]] = {job: [] for job in jobs}
    with tempfile.TemporaryDirectory() as directory:

        async def run(job: str) -> None:
            first = 2 * JOBS.index(job)
            await session.run_workers(
                [sys.executable, str(WORKER), job, str(work.size_bytes), str(work.steps),
                 directory, *jobs],
                algorithm="inc",
                hosts=(f"h{first}", f"h{first + 1}"),
                job_name=job,
                output=lambda _host, line: spans[job].append(json.loads(line)),
            )  # fmt: skip

        await asyncio.gather(*(run(job) for job in jobs))
    if not all(span["right"] for of_job in spans.values() for span in of_job):
        raise EmulationError("a job's sum is wrong")
    began_s = min(span["began_s"] for of_job in spans.values() for span in of_job)
    return {job: max(s["ended_s"] for s in of_job) - began_s for job, of_job in spans.items()}


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness (Jain, Chiu and Hawe, 1984): 1 when all shares are equal."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def main() -> None:
    """Measure and print."""
    parser = argument_parser("four jobs at once on star8, against one after the other")
    parser.add_argument("--rate", type=quantity(parse_rate_bps), default="100mbit")
    parser.add_argument("--size", type=quantity(parse_size_bytes), default="1MiB", help="of a sum")
    parser.add_argument("--slots", type=int, default=128, help="of the switch, default 128")
    parser.add_argument("--steps", type=int, help="sums of each job; default 20, quick: 8")
    arguments = parser.parse_args()
    work = Work(arguments.size, arguments.steps or (8 if arguments.quick else 20))
    benchmark = Benchmark("many_jobs", arguments, deadline_s=300)

    async def measure(_progress: ProgressBar) -> Figures:
        topology = load_topology("star8").with_overrides(
            rate_bps=arguments.rate, slots=arguments.slots
        )
        async with Session(topology, output=lambda _label, _line: None) as session:
            alone_s: dict[str, float] = {}
            for job in JOBS:
                alone_s |= await run_jobs(session, [job], work)
            use = SlotUse(session)
            watching = asyncio.ensure_future(use.watch())
            together_s = await run_jobs(session, JOBS, work)
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        slowdown = {job: together_s[job] / alone_s[job] for job in JOBS}
        return {
            "together_s": max(together_s.values()),
            "one_after_the_other_s": sum(alone_s.values()),
            "speedup": sum(alone_s.values()) / max(together_s.values()),
            "slowdown": slowdown,
            "fairness_jain": jain([1 / factor for factor in slowdown.values()]),
            "slots_most": use.most,
            "slots_guaranteed": use.guaranteed,
            "slots": arguments.slots,
            "rate_bps": arguments.rate,
            "size_bytes": work.size_bytes,
            "steps": work.steps,
        }

    benchmark.run(measure)


if __name__ == "__main__":
    main()
