"""The launcher's side of a replay on an emulated network."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innet.cluster.launch.session import Session
from innet.cluster.launch.supervision import RestartPolicy
from innet.errors import EmulationError
from innet.kv.designs import Design
from innet.lab.compare.measurement import LinkTraffic
from innet.lab.compare.sampling import KernelProbe, PortProbe, Probe, TrafficTotal
from innet.lab.replay import ReferenceRates
from innet.lab.replay.assignment import requests_of
from innet.lab.replay.counts import BlockCounts
from innet.lab.replay.emulated.conversation import Done, Go, Part, Ready, Served, WrittenRequest
from innet.lab.replay.plan import ReplayPlan, home_weights, with_switch_memory
from innet.lab.replay.statistics import ReplayStatistics
from innet.lab.simulation.experiment.result import JobResult, RunResult
from innet.lab.simulation.experiment.task import Task
from innet.lab.simulation.workload.model import KvJob
from innet.node.node_config import Mode
from innet.telemetry.logs.output import OutputSink

_START_S = 90.0
_LEAD_S = 0.2
_END_S = 15.0
_LINE_BYTES = 1 << 20

Told = Callable[[float, str], None]
"""Takes the share of the requests that are served, and what is being done."""


@dataclass
class _Heard:
    """What the workers have said so far.

    Attributes:
        ready: hosts that are.
        spans_s: beginning and end of each timed request.
        statistics: of all workers that are done.
        served: blocks that homes have given.
        left: workers that are done or gone.
        changed: set with each of these.
    """

    ready: set[str] = field(default_factory=set)
    spans_s: list[tuple[float, float]] = field(default_factory=list)
    statistics: ReplayStatistics = field(default_factory=ReplayStatistics)
    served: int = 0
    left: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


async def replay_on_network(task: Task, mode: Mode, output: OutputSink, told: Told) -> RunResult:
    """Replay a task's requests on its topology, launched for that.

    A worker that dies is missed by nobody but its own requests. Cancelled, it gives what it has.

    Args:
        task: its workload is one replay.
        mode: of the network.
        output: takes what workers and switches print.
        told: of the progress.

    Raises:
        EmulationError: the network cannot be launched, or no worker can work.
        WorkloadError: the job's homes are none of the topology's hosts.
    """
    return await _Replay(task, mode, output, told).run()


class _Replay:
    def __init__(self, task: Task, mode: Mode, output: OutputSink, told: Told) -> None:
        (job,) = task.workload.jobs
        assert isinstance(job, KvJob)
        self._task, self._job, self._mode = task, job, mode
        self._output, self._told = output, told
        self._design = Design.parse(task.algorithm)
        written = job.written
        self._hosts = tuple(written.hosts or task.topology.hosts)
        homes = home_weights(written, job.name, self._hosts, task.topology.hosts)
        self._members = tuple(dict.fromkeys((*self._hosts, *homes)))
        timeout_s = written.timeout or task.settings.collectives.usual_timeout_s
        self._plan = ReplayPlan.of(written, self._design, len(self._hosts), homes, timeout_s)
        self._requests = job.requests[: written.warm_up + written.repetitions]
        self._heard = _Heard()
        self._interrupted = False

    async def run(self) -> RunResult:
        began_s = time.monotonic()
        topology = with_switch_memory(self._task.topology, self._job.written, self._design.name)
        async with Session(
            topology, mode=self._mode, settings=self._task.settings, output=self._output
        ) as session:
            directory = session.network.run_dir / "replay"
            directory.mkdir()
            async with self._socket(directory / "replay.sock") as socket:
                await asyncio.to_thread(self._write_parts, directory, socket)
                links, hits, resent = await self._replay(session, directory)
        return self._result(links, hits, resent, time.monotonic() - began_s)

    async def _replay(
        self, session: Session, directory: Path
    ) -> tuple[list[LinkTraffic], dict[str, int], int]:
        probe: Probe = (
            PortProbe(session) if self._mode == "local" else KernelProbe(session.network, session)
        )
        module = "innet.lab.replay.emulated.worker"
        workers = asyncio.ensure_future(
            session.run_workers(
                [sys.executable, "-m", module, str(directory)],
                hosts=self._members,
                restarts=RestartPolicy(on_worker_death="shrink"),
            )
        )
        try:
            await self._until(workers, lambda: len(self._heard.ready) == len(self._members))
            links, nodes = await probe.links(), await probe.nodes()
            hits = _cache_hits(await session.status())
            self._begin()
            try:
                await self._until(workers, lambda: self._heard.left >= len(self._members))
            except asyncio.CancelledError:
                self._stop_for_user()
            traffic = TrafficTotal()
            traffic.add(links, await probe.links())
            resent = (await probe.nodes()).retransmissions - nodes.retransmissions
            now = _cache_hits(await session.status())
            since = {switch: max(0, now[switch] - hits.get(switch, 0)) for switch in now}
            return traffic.per_operation(self._task.topology, 1), since, resent
        finally:
            self._hang_up()
            await asyncio.wait((workers,), timeout=0 if self._interrupted else _END_S)
            workers.cancel()
            await asyncio.gather(workers, return_exceptions=True)

    def _stop_for_user(self) -> None:
        """Ctrl-C: what there is is shown."""
        self._interrupted = True
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()

    async def _until(
        self, workers: asyncio.Future[tuple[str, ...]], is_so: Callable[[], bool]
    ) -> None:
        """Wait for the workers' words; their end before is an error."""
        end_s = time.monotonic() + _START_S
        while not is_so():
            heard = asyncio.ensure_future(self._heard.changed.wait())
            timeout_s = None if self._heard.ready == set(self._members) else _START_S
            try:
                await asyncio.wait(
                    (workers, heard), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                heard.cancel()
            self._heard.changed.clear()
            if workers.done():
                await workers
                raise EmulationError(
                    "all workers of the replay ended before its end; what they printed last, in "
                    "the logs, says why"
                )
            if timeout_s is not None and time.monotonic() > end_s:
                missing = ", ".join(sorted(set(self._members) - self._heard.ready))
                raise EmulationError(
                    f"{missing} were not ready within {_START_S:.0f} s; their logs say what they "
                    "waited for. A topology of fewer hosts starts sooner"
                )

    def _begin(self) -> None:
        for writer in self._heard.writers:
            writer.write(Go(start_s=time.monotonic() + _LEAD_S).line())

    def _hang_up(self) -> None:
        for writer in self._heard.writers:
            writer.close()

    @asynccontextmanager
    async def _socket(self, path: Path) -> AsyncIterator[Path]:
        server = await asyncio.start_unix_server(self._listen, path, limit=_LINE_BYTES)
        try:
            yield path
        finally:
            server.close()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = self._heard
        heard.writers.append(writer)
        is_done = False
        try:
            ready = Ready.model_validate_json(await reader.readline())
            heard.ready.add(ready.host)
            heard.changed.set()
            while line := await reader.readline():
                if line.startswith(b'{"number"'):
                    self._note(Served.model_validate_json(line))
                else:
                    self._add(Done.model_validate_json(line))
                    is_done = True
                    heard.left += 1
                heard.changed.set()
        except (ConnectionError, ValueError):
            pass  # it ended in the middle of a word; its requests are missing
        if not is_done:
            heard.left += 1
            heard.changed.set()

    def _note(self, served: Served) -> None:
        if served.number >= self._job.written.warm_up:
            self._heard.spans_s.append((served.begun_s, served.ended_s))
        count = len(self._heard.spans_s)
        self._told(count / max(1, len(self._requests)), f"{count} of {len(self._requests)}")

    def _add(self, done: Done) -> None:
        self._heard.statistics.add(done.statistics)
        self._heard.served += done.served

    def _write_parts(self, directory: Path, socket: Path) -> None:
        for host in self._members:
            rank = self._hosts.index(host) if host in self._hosts else None
            own = (
                []
                if rank is None
                else requests_of(rank, len(self._hosts), self._requests, self._job.written.assign)
            )
            part = Part(
                plan=self._plan,
                job=self._job.name,
                socket=str(socket),
                warm_up=self._job.written.warm_up,
                requests=[
                    WrittenRequest(
                        number=number,
                        arrival_s=request.arrival_s,
                        input_tokens=request.input_tokens,
                        output_tokens=request.output_tokens,
                        blocks=[block.hex() for block in request.blocks],
                    )
                    for number, request in own
                ],
            )
            (directory / f"{host}.json").write_bytes(part.line())

    def _result(
        self, links: list[LinkTraffic], hits: dict[str, int], resent: int, wall_s: float
    ) -> RunResult:
        heard, written = self._heard, self._job.written
        begin_s = min((begun for begun, _ in heard.spans_s), default=0.0)
        blocks = {block for request in self._requests for block in request.blocks}
        job = JobResult(
            job=self._job.name,
            algorithm=self._task.algorithm,
            operation="first token",
            size_bytes=written.cache or written.block * len(blocks),
            bound_s=None,
            spans_s=[(begun - begin_s, ended - begin_s) for begun, ended in heard.spans_s],
            correct=heard.statistics.wrong == 0,
            failure=self._failure(),
            blocks=BlockCounts.of(heard.statistics, heard.served, hits),
            references=ReferenceRates.of(
                self._requests, written.cache_blocks, self._plan.policy, written.warm_up
            ),
        )
        return RunResult(
            seed=self._task.seed,
            jobs=[job],
            links=links,
            queue=None,
            operations=len(heard.spans_s),
            retransmissions=resent,
            slots_in_use_max=0,
            virtual_s=0.0,
            wall_s=wall_s,
            packets=0,
            interrupted=self._interrupted,
        )

    def _failure(self) -> str | None:
        missing = len(self._requests) - self._job.written.warm_up - len(self._heard.spans_s)
        if self._interrupted or missing <= 0:
            return None
        return f"{missing} requests were not served: the processes of their workers had ended"


def _cache_hits(status: dict[str, dict[str, Any]]) -> dict[str, int]:
    """What each switch's content store has answered."""
    return {
        node: int(answer["node"]["cache_hits"])
        for node, answer in status.items()
        if answer["kind"] == "switch"
    }
