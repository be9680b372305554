"""One soak: trainings over one network, faults, and what they left behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from innet.cluster.launch import RestartPolicy, Session
from innet.errors import InnetError
from innet.lab.compare.progress import ProgressSink
from innet.settings import Settings
from innet.topology import load_topology
from innet.worker.job_file import OnDeath
from tests.cluster.emulation.witness import Witness
from tests.soak.faults import Fault, draw_faults
from tests.soak.infliction import Inflictor
from tests.soak.memory import Growth, MemoryWatch

_HERE = Path(__file__).parent
_TRAINING = _HERE / "workers" / "training.py"
_AS_OFTEN_AS_NEEDED = 1000
_END_TIMEOUT_S = 180.0
"""From the last fault to the end of a training: more than two deadlines of an operation."""
_PHASES: Sequence[tuple[OnDeath, float]] = (("wait", 0.6), ("shrink", 0.4))
"""What survivors of a worker do, and for which part of the time."""
_END = re.compile(r"ends after step (\d+) with (\w+)")
_STEP = re.compile(r"step (\d+)$")


@dataclass
class Report:
    """What a soak found.

    Attributes:
        problems: in sentences; empty when all was well.
        steps: of each training.
        faults: how many of each kind.
        growths: of the processes that lived on.
        wall_s: how long it took.
        cpu_s: processor time of all processes.
    """

    problems: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    growths: Sequence[Growth] = ()
    wall_s: float = 0.0
    cpu_s: float = 0.0


class Soak:
    """Trains for some time while faults happen, all of which follow from ``seed``."""

    def __init__(
        self,
        duration_s: float,
        seed: int,
        pace_s: float,
        log: IO[str],
        progress: ProgressSink,
        registry: Path,
    ) -> None:
        """``pace_s`` lies between two steps; ``registry`` is an empty XDG_RUNTIME_DIR."""
        self._duration_s = duration_s
        self._random = random.Random(seed)
        self._pace_s = pace_s
        self._log = log
        self._progress = progress
        self._registry = registry
        self._report = Report()
        self._ends: dict[str, tuple[int, str]] = {}
        self._step = 0
        self._session = Session(
            load_topology(_HERE / "leaf_spine.yaml"),
            mode="netns",
            settings=Settings().with_assignments(
                [
                    f"recovery.switch_restarts={_AS_OFTEN_AS_NEEDED}",
                    f"recovery.controller_restarts={_AS_OFTEN_AS_NEEDED}",
                ]
            ),
            output=self._hear,
        )
        self._inflictor = Inflictor(self._session, lambda text: self._hear("fault", text))
        self._memory = MemoryWatch(self._session)
        self._began_s = time.monotonic()

    async def run(self) -> Report:
        """All of it."""
        try:
            async with self._session:
                witness = Witness(self._session.network.run_id, self._registry / "innet")
                watching = asyncio.ensure_future(self._watch())
                for policy, part in _PHASES:
                    await self._train(policy, part * self._duration_s)
                    await self._require_empty_tables(policy)
                await _cancelled(watching)
            self._report.problems.extend(f"{it} is left" for it in witness.leftovers())
        except InnetError as error:
            self._report.problems.append(f"the network ended: {error}")
        return self._conclude()

    async def _train(self, policy: OnDeath, duration_s: float) -> None:
        """One training; what is wrong with it goes into the report."""
        self._ends.clear()
        self._step = 0
        self._hear("soak", f"a training whose survivors {policy}, for {duration_s:.0f} s")
        stop_file = self._registry / f"stop-{policy}"
        job = asyncio.ensure_future(
            self._session.run_workers(
                [sys.executable, str(_TRAINING), str(stop_file), str(self._pace_s)],
                env={"OPENBLAS_NUM_THREADS": "1"},
                algorithm="inc",
                restarts=RestartPolicy(
                    _AS_OFTEN_AS_NEEDED if policy == "wait" else None, on_worker_death=policy
                ),
            )
        )
        happening = asyncio.ensure_future(self._inflictor.inflict(self._faults(policy, duration_s)))
        try:
            await asyncio.wait(
                [job, happening], timeout=duration_s, return_when=asyncio.FIRST_EXCEPTION
            )
            await _cancelled(happening)
            stop_file.touch()
            await asyncio.wait_for(job, _END_TIMEOUT_S)
        except TimeoutError:
            self._report.problems.append(f"the training ({policy}) did not end when told to")
        except InnetError as error:
            self._report.problems.append(f"the training ({policy}) failed: {error}")
        self._require_one_end(policy)

    def _faults(self, policy: OnDeath, duration_s: float) -> Sequence[Fault]:
        topology = self._session.topology
        killable = [host for host in topology.hosts if host != "h0"]
        most = len(killable) - 1 if policy == "shrink" else None  # two remain
        faults = draw_faults(topology, self._random, duration_s, killable, most)
        return list(faults)

    def _require_one_end(self, policy: str) -> None:
        ends = set(self._ends.values())
        if len(ends) != 1:
            told = ", ".join(f"{node}: {end}" for node, end in sorted(self._ends.items()))
            self._report.problems.append(
                f"the training ({policy}) has not one end on all its ranks: {told or 'none'}"
            )
        self._report.steps.append(max((steps for steps, _ in ends), default=0))

    async def _require_empty_tables(self, policy: str) -> None:
        """A job that is over has nothing on the switches."""
        for node, status in (await self._session.status()).items():
            held = {
                "slots": status["reducer"]["slots_in_use"],
                "pending Interests": status["node"]["pit_entries"],
                "rules": len(status["rules"]),
                "jobs": len(status["jobs"]),
            }
            if node in self._session.topology.switches and any(held.values()):
                self._report.problems.append(f"after the training ({policy}) {node} has {held}")

    async def _watch(self) -> None:
        watching = asyncio.ensure_future(self._memory.watch())
        try:
            while True:
                self._tell_progress()
                await asyncio.sleep(1)
        finally:
            await _cancelled(watching)

    def _tell_progress(self) -> None:
        elapsed_s = time.monotonic() - self._began_s
        self._progress(
            min(elapsed_s / self._duration_s, 1.0),
            f"step {self._step}, {self._inflictor.inflicted.total()} faults, "
            f"{self._memory.resident_bytes / 1e6:.0f} MB, {len(self._report.problems)} problems",
        )

    def _conclude(self) -> Report:
        report = self._report
        report.wall_s = time.monotonic() - self._began_s
        report.faults = self._inflictor.inflicted
        report.growths = self._memory.growths(least_s=self._duration_s / 4)
        grown = [growth for growth in report.growths if not growth.is_flat]
        report.problems.extend(f"it grew: {growth}" for growth in grown)
        usages = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        report.cpu_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return report

    def _hear(self, label: str, line: str) -> None:
        self._log.write(f"{time.monotonic() - self._began_s:8.1f} [{label}] {line}\n")
        if end := _END.match(line):
            self._ends[label] = int(end[1]), end[2]
        elif step := _STEP.match(line):
            self._step = max(self._step, int(step[1]))


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel what still runs, and wait until it has ended; its own end raises what it raised."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
