"""Jobs on real processes whose network meets faults while they run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from innet.cluster.launch import JobFailed, RestartPolicy, Session
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import Topology, load_topology
from tests.conftest import JobResult

WORKERS = Path(__file__).parent / "workers"


class FaultyRun:
    """A job on a session, and what was said so far: a fault waits for the moment it is due."""

    def __init__(self, session: Session, result: JobResult) -> None:
        self.session = session
        self.result = result
        self._changed = asyncio.Event()

    def on_line(self, label: str, line: str) -> None:
        """A process or the launcher said something."""
        self.result.lines.append((label, line))
        self._changed.set()

    async def said(self, label: str, words: str) -> None:
        """Wait until ``label`` has said these words."""
        while not any(who == label and words in line for who, line in self.lines()):
            self._changed.clear()
            await self._changed.wait()

    async def said_again(self, label: str, words: str) -> None:
        """Wait for one more such line than there is."""
        known = len(self.result.lines)
        while not any(who == label and words in line for who, line in self.lines()[known:]):
            self._changed.clear()
            await self._changed.wait()

    def lines(self) -> Sequence[tuple[str, str]]:
        """Each printed line with the node that printed it."""
        return self.result.lines

    def pid(self, node: str) -> int:
        """The process that runs on ``node`` now."""
        (process,) = (
            p
            for p in self.session.network.processes.processes
            if p.label == node and p.returncode is None
        )
        return process.identity.pid

    def kill(self, node: str) -> None:
        """SIGKILL, as ``kill -9`` sends it."""
        os.kill(self.pid(node), signal.SIGKILL)


Faults = Callable[[FaultyRun], Awaitable[None]]


async def no_faults(_run: FaultyRun) -> None:
    """Leave the network as it is."""


async def run_with_faults(
    topology: Topology | str,
    argv: Sequence[str],
    faults: Faults = no_faults,
    *,
    mode: Mode = "local",
    algorithm: str = "inc",
    settings: Sequence[str] = (),
    restarts: RestartPolicy | None = None,
    hosts: Sequence[str] | None = None,
) -> JobResult:
    """Run ``argv`` on every host, or on ``hosts``, while ``faults`` happen.

    All of them must have, before the job ends.
    """
    result = JobResult()
    loaded = load_topology(topology) if isinstance(topology, str) else topology
    run: FaultyRun

    session = Session(
        loaded,
        mode=mode,
        settings=Settings().with_assignments(settings),
        output=lambda label, line: run.on_line(label, line),
    )
    run = FaultyRun(session, result)
    async with session:
        happening = asyncio.ensure_future(faults(run))
        try:
            await session.run_workers(argv, algorithm=algorithm, restarts=restarts, hosts=hosts)
        except JobFailed as failure:
            result.failure = str(failure)
        finally:
            done = happening.done()
            happening.cancel()
            await asyncio.wait([happening])
        assert done, f"the job ended before the faults had happened: {result.lines[-20:]}"
        happening.result()
    return result


def worker(name: str, *arguments: object) -> list[str]:
    """The command of a script in ``workers``."""
    return [sys.executable, str(WORKERS / name), *map(str, arguments)]


def digests(result: JobResult) -> set[str]:
    """The digests of all results that the workers printed: one line when they agree."""
    return {line for _, line in result.lines if line.startswith("digest ")}
