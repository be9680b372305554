"""Does to a running session what was drawn."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable

from innet.cluster.emulation.processes import SupervisedProcess
from innet.cluster.launch import Session
from tests.faults.links import set_link
from tests.soak.faults import Fault


class Inflictor:
    """Inflicts faults when they are due, and sees to it that all are over in the end.

    Attributes:
        inflicted: how many of each kind.
    """

    def __init__(self, session: Session, say: Callable[[str], None]) -> None:
        self._session = session
        self._say = say
        self.inflicted: Counter[str] = Counter()

    async def inflict(self, faults: Iterable[Fault]) -> None:
        """All ``faults``, whose clock begins now."""
        began_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in faults:
                await asyncio.sleep(max(0.0, began_s + fault.at_s - time.monotonic()))
                group.create_task(self._inflict(fault))

    async def _inflict(self, fault: Fault) -> None:
        if fault.kind == "down":
            self._note(fault)
            await self._take_down(fault)
            return
        process = self._process(fault.target)
        if process is None:
            self._say(f"{fault.target} is not there: nothing to do to it")
            return
        self._note(fault)
        if fault.kind == "kill":
            os.kill(process.identity.pid, signal.SIGKILL)
            return
        os.kill(process.identity.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            if process.returncode is None:
                os.kill(process.identity.pid, signal.SIGCONT)

    async def _take_down(self, fault: Fault) -> None:
        node, _, port = fault.target.partition(":")
        run_id = self._session.network.run_id
        await asyncio.to_thread(set_link, run_id, node, port, "down")
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            await asyncio.to_thread(set_link, run_id, node, port, "up")

    def _note(self, fault: Fault) -> None:
        self.inflicted[fault.kind] += 1
        self._say(str(fault))

    def _process(self, label: str) -> SupervisedProcess | None:
        for process in self._session.network.processes.processes:
            if process.label == label and process.returncode is None:
                return process
        return None
