"""Replays requests over an emulated network."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from innet.cluster.launch.session import Session
from innet.cluster.session_client import RestartPolicy
from innet.errors import EmulationError
from innet.lab.compare.measurement import LinkTraffic
from innet.lab.compare.progress import ProgressSink
from innet.lab.compare.sampling import Probe, TrafficTotal, cache_hits
from innet.lab.experiment.run import JobResult, RunResult, Task
from innet.lab.harness import EXIT_S, Conductor, SessionRanks, Team
from innet.lab.replay.plan import Design, with_switch_memory
from innet.lab.replay.worker import (
    TEAM,
    Replay,
    ReplayResult,
    ReplayStatistics,
    ReplayTask,
    Served,
)
from innet.lab.workload.model import KvJob
from innet.node.node_config import Mode
from innet.telemetry.logs.output import OutputSink

_START_S = 90.0


async def replay_on_network(
    task: Task, mode: Mode, output: OutputSink, progress: ProgressSink
) -> RunResult:
    """Launch a task's topology and replay the task's requests over it.

    When a worker dies, its requests fail and the other workers continue. When cancelled, returns
    the results so far.

    Args:
        task: its workload is one replay.
        mode: of the network.
        output: takes the lines that workers and switches print.
        progress: shows the share of served requests.
    """
    return await _Replay(task, mode, output, progress).run()


@dataclass(frozen=True)
class _Counted:
    """The counters of workers, links and nodes.

    Attributes:
        results: of the workers that have not left.
        links: their traffic.
        switch_hits: answers of each content store.
        retransmissions: of Interests.
    """

    results: list[ReplayResult]
    links: list[LinkTraffic]
    switch_hits: dict[str, int]
    retransmissions: int


class _Replay:
    def __init__(self, task: Task, mode: Mode, output: OutputSink, progress: ProgressSink) -> None:
        (job,) = task.workload.jobs
        assert isinstance(job, KvJob)
        self._task, self._job, self._mode = task, job, mode
        self._output, self._progress = output, progress
        self._design = Design.parse(task.algorithm)
        timeout_s = job.written.timeout or task.settings.collectives.usual_timeout_s
        self._replay = Replay(job, self._design, task.topology, timeout_s)
        self._spans_s: list[tuple[float, float]] = []
        self._interrupted = False

    async def run(self) -> RunResult:
        began_s = time.monotonic()
        topology = with_switch_memory(self._task.topology, self._job.written, self._design.name)
        async with (
            Session(
                topology, mode=self._mode, settings=self._task.settings, output=self._output
            ) as session,
            Conductor(session.network.run_dir / "replay.sock") as conductor,
        ):
            command = [sys.executable, "-m", "innet.lab.replay.worker", str(conductor.path)]
            ranks = SessionRanks(session, command)
            await ranks.start(self._replay.members, RestartPolicy(on_worker_death="shrink"))
            try:
                team = await conductor.assemble(
                    TEAM, len(self._replay.members), _START_S, ranks.job
                )
                counted = await self._serve(session, team)
                if not counted.results and not self._interrupted:
                    reason = await ranks.failure() or "their logs say why"
                    raise EmulationError(
                        f"all workers of the replay exited before its end: {reason}"
                    )
            except asyncio.CancelledError:
                self._interrupted = True
                raise
            finally:
                conductor.hang_up()
                await ranks.end(0 if self._interrupted else EXIT_S)
        return self._result(counted, time.monotonic() - began_s)

    async def _serve(self, session: Session, team: Team) -> _Counted:
        tasks = await asyncio.to_thread(self._tasks)
        try:
            async with asyncio.timeout(_START_S):
                await team.prepare(tasks)
        except TimeoutError:
            raise EmulationError(
                f"workers were not ready within {_START_S:.0f} s; their logs say what they waited "
                "for. A topology of fewer hosts starts sooner"
            ) from None
        probe = Probe(session.network, session)
        links, nodes = await probe.links(), await probe.nodes()
        hits = await self._switch_hits(session)
        team.start()
        try:
            await team.finish(self._note, lets_leave=True)
        except asyncio.CancelledError:
            self._stop_for_user()
        traffic = TrafficTotal()
        traffic.add(links, await probe.links())
        resent = (await probe.nodes()).retransmissions - nodes.retransmissions
        now = await self._switch_hits(session)
        return _Counted(
            results=list((await team.results(ReplayResult)).values()),
            links=traffic.per_operation(self._task.topology, 1),
            switch_hits={switch: max(0, now[switch] - hits[switch]) for switch in now},
            retransmissions=resent,
        )

    async def _switch_hits(self, session: Session) -> Counter[str]:
        return cache_hits(await session.status(), self._task.topology.switches)

    def _stop_for_user(self) -> None:
        """Continue after Ctrl-C with the results so far."""
        self._interrupted = True
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()

    def _note(self, _rank: int, progress: dict[str, Any]) -> None:
        served = Served.model_validate(progress)
        if served.number >= self._job.written.warm_up:
            self._spans_s.append((served.begun_s, served.ended_s))
        count = len(self._spans_s)
        number = len(self._replay.requests)
        self._progress(count / max(1, number), f"{count} of {number}")

    def _tasks(self) -> list[ReplayTask]:
        """The requests of each member; a host that is only a home has none."""
        replay = self._replay
        own = {host: replay.requests_of(rank) for rank, host in enumerate(replay.hosts)}
        return [
            ReplayTask(
                plan=replay.plan,
                job=self._job.name,
                warm_up=self._job.written.warm_up,
                requests=list(own.get(host, ())),
            )
            for host in replay.members
        ]

    def _result(self, counted: _Counted, wall_s: float) -> RunResult:
        spans_s = self._spans_s
        statistics = ReplayStatistics()
        for result in counted.results:
            statistics.add(result.statistics)
        served = sum(result.served for result in counted.results)
        begin_s = min((begun for begun, _ in spans_s), default=0.0)
        job = JobResult(
            job=self._job.name,
            algorithm=self._task.algorithm,
            operation="first token",
            size_bytes=self._replay.size_bytes,
            bound_s=None,
            spans_s=[(begun - begin_s, ended - begin_s) for begun, ended in spans_s],
            correct=statistics.wrong == 0,
            failure=self._failure(),
            blocks=self._replay.places(statistics, served, counted.switch_hits),
        )
        return RunResult(
            seed=self._task.seed,
            jobs=[job],
            links=counted.links,
            queue=None,
            operations=len(spans_s),
            retransmissions=counted.retransmissions,
            slots_in_use_max=0,
            virtual_s=0.0,
            wall_s=wall_s,
            packets=0,
            interrupted=self._interrupted,
        )

    def _failure(self) -> str | None:
        missing = len(self._replay.requests) - self._job.written.warm_up - len(self._spans_s)
        if self._interrupted or missing <= 0:
            return None
        return f"{missing} requests were not served: the processes of their workers had exited"
