"""The workers of one job: started, restarted when they die, ended together."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.processes import SupervisedProcess, end_processes
from innet.cluster.session_client import OnGivenUp, RestartPolicy
from innet.errors import JobFailed

_FAILURE_GRACE_S = 10.0
"""How long the workers of a job that failed may run on before they get SIGTERM."""
_SAY_AFTER_S = 2.0
_FAILED_STARTS = 5
"""A server that died so often in a row soon after its start is not started again."""
_STEADY_S = 600.0
"""A server that lived for so long has started; large models take minutes to load."""
_FIRST_PAUSE_S = 0.1

StartWorker = Callable[[str, int], SupervisedProcess]
"""Starts the worker of a node, given how often it was restarted."""
Tell = Callable[[str], None]
"""Prints a line to the user about a server."""


class Supervisor:
    """Runs one worker on each node until all have ended, as a :class:`RestartPolicy` says.

    Attributes:
        on_given_up: is called with the last process of a worker that is not restarted any more.
    """

    on_given_up: OnGivenUp | None = None

    def __init__(
        self,
        controller: RemoteController,
        start: StartWorker,
        policy: RestartPolicy | None = None,
        tell: Tell = lambda text: None,
        until_reachable: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """``until_reachable``: waits until the machine of a node is there."""
        self._controller = controller
        self._until_reachable = until_reachable
        self._start = start
        self._policy = policy or RestartPolicy()
        self._tell = tell
        self._workers: dict[str, SupervisedProcess] = {}
        self._restarts: Counter[str] = Counter()
        self._failed_starts: Counter[str] = Counter()
        self._failed: list[SupervisedProcess] = []
        self._deadline_s: float | None = None

    async def run(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Start a worker on each of ``nodes``, and wait until all have ended.

        No worker is left, also if this raises.

        Returns:
            How and why those ended that an elastic job went on without: ``h2 (pid 7) exited with
            code 1; it failed with ValueError: x``.

        Raises:
            JobFailed: a worker ended with an error, and the policy knows no remedy.
            EmulationError: a worker cannot be started.
        """
        try:
            for node in nodes:
                self._workers[node] = self._start(node, 0)
            await self._follow()
            if self._failed and not self._ended_well():
                await self._end_workers()
                raise await self._report()
            return await self._losses()
        finally:
            await self._end_workers()

    async def _end_workers(self) -> None:
        """End those that run, and say whom the program waits for."""

        def say() -> None:
            running = [w for w in self._workers.values() if w.returncode is None]
            if running:
                self._tell(
                    f"SIGTERM was sent; waiting up to {max(w.spec.grace_s for w in running):g} s "
                    f"(--grace) for {', '.join(w.label for w in running)} to end, which another "
                    "Ctrl-C kills"
                )

        saying = asyncio.get_running_loop().call_later(_SAY_AFTER_S, say)
        try:
            await end_processes(self._workers.values(), self._tell)
        finally:
            saying.cancel()

    async def _follow(self) -> None:
        """Wait until each node's last worker has ended, or a failed job's grace period is over."""
        keeping = {asyncio.ensure_future(self._keep(node)) for node in self._workers}
        try:
            while keeping:
                timeout_s = (
                    None
                    if self._deadline_s is None
                    else max(0.0, self._deadline_s - time.monotonic())
                )
                done, keeping = await asyncio.wait(
                    keeping, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    return
                for task in done:
                    task.result()
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)

    async def _keep(self, node: str) -> None:
        """Follow a node's worker and its successors until the last one ends."""
        while True:
            worker = self._workers[node]
            began_s = time.monotonic()
            await worker.wait()
            if worker.returncode == 0:
                await asyncio.to_thread(self._controller.end, node, worker.describe_end())
                return
            if not self._may_restart(node, time.monotonic() - began_s):
                await self._lose(worker)
                return
            await asyncio.to_thread(self._controller.fail, node, worker.describe_end())
            if self._policy.serve:
                self._tell(f"{worker.describe()}; starting it anew, the others go on")
                failed = self._failed_starts[node]
                await asyncio.sleep(pause_before_restart_s(_FIRST_PAUSE_S, failed))
            if self._until_reachable is not None:
                await self._until_reachable(node)
            self._restarts[node] += 1
            self._workers[node] = self._start(node, self._restarts[node])

    def _may_restart(self, node: str, lived_s: float) -> bool:
        """Whether the policy allows a restart; counts the deaths of servers."""
        if self._deadline_s is not None or self._restarts[node] >= self._policy.restarts:
            return False
        if self._policy.serve:
            self._failed_starts[node] = 1 if lived_s >= _STEADY_S else self._failed_starts[node] + 1
        return self._failed_starts[node] <= _FAILED_STARTS

    async def _lose(self, worker: SupervisedProcess) -> None:
        """Go on without a worker that is not restarted, or begin to end the job."""
        self._failed.append(worker)
        if self.on_given_up is not None:
            self.on_given_up(worker)
        if not self._policy.goes_on_without:
            self._deadline_s = self._deadline_s or time.monotonic() + _FAILURE_GRACE_S
        if self._policy.serve:
            self._tell(f"{worker.describe()}, and is not started again")
        await asyncio.to_thread(self._controller.lose, worker.label, worker.describe_end())

    def _ended_well(self) -> bool:
        """An elastic job needs one worker that reached the end."""
        return self._policy.goes_on_without and len(self._failed) < len(self._workers)

    async def _losses(self) -> tuple[str, ...]:
        """How each worker ended that the job went on without, and why where that says more."""
        if not self._failed:
            return ()
        causes = await asyncio.to_thread(self._controller.failures)
        losses = []
        for worker in self._failed:
            cause, _, _ = causes.get(worker.label, "").partition("\n")
            says_more = cause not in ("", worker.describe_end())
            losses.append(f"{worker.describe()}; it {cause}" if says_more else worker.describe())
        return tuple(losses)

    async def _report(self) -> JobFailed:
        # The one that failed first may be the last to end: others end when they are notified. One
        # that a signal ended is a cause in any case: nobody dies of another's error that way.
        # One that ended with status 0, or runs another program, fails those that wait for it.
        causes = await asyncio.to_thread(self._controller.failures)
        order = list(causes)
        failed = [worker for worker in self._workers.values() if worker.label in causes]
        failed.sort(key=lambda w: (not _was_killed(w), order.index(w.label)))
        first = failed[0]
        rank = list(self._workers).index(first.label)
        return JobFailed(
            f"{first.failure_report()}\n{self._cause_line(rank, first, causes[first.label])}",
            next(code for code in map(_exit_code, (first, *self._failed)) if code),
        )

    def _cause_line(self, rank: int, first: SupervisedProcess, why: str) -> str:
        """The last line of a job that failed: which rank on which host, and why."""
        cause, _, _ = why.partition("\n")
        if _was_killed(first) and cause != first.describe_end():
            cause += f", so it {first.describe_end()}"
        if others := sum(worker is not first for worker in self._failed):
            after = f"{others} more of {len(self._workers)} workers ended with an error after it"
            cause = f"{cause.rstrip('.')}; {after}"
        return f"rank {rank} ({first.label}) {cause}"


def _was_killed(process: SupervisedProcess) -> bool:
    return (process.returncode or 0) < 0


def _exit_code(process: SupervisedProcess) -> int:
    returncode = process.returncode or 0
    return returncode if returncode >= 0 else 128 - returncode


_LONGEST_PAUSE_S = 5.0
_MOST_DOUBLINGS = 16


def pause_before_restart_s(first_s: float, number: int) -> float:
    """The pause before restart ``number``, from 1: it doubles each time, up to 5 s.

    >>> [pause_before_restart_s(0.2, number) for number in (1, 2, 3, 20)]
    [0.2, 0.4, 0.8, 5.0]
    """
    doubled_s = first_s * 2.0 ** min(number - 1, _MOST_DOUBLINGS)
    return max(first_s, min(doubled_s, _LONGEST_PAUSE_S))
