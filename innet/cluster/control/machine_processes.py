"""Processes of another machine: the controller has that machine's agent watch and kill them.

This module has the requests, the controller's end (:class:`MachineProcesses`) and the agent's end
(:class:`ProcessRequests`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import FailFast, Field

from innet.cluster.control.processes import LocalProcess, OnEnded
from innet.cluster.emulation.runs import ProcessIdentity
from innet.cluster.requests import ClientConnection, RequestClient, checked
from innet.errors import ControlError, InnetError, NoAnswer
from innet.validation_messages import StrictModel

_ANSWER_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 2.0
_MAX_BYTES = 1 << 20
"""Of a reply of an agent; it has the identities of processes."""
_OPEN_PAUSE_S = 0.5
"""Before another attempt to open a process."""

_log = logging.getLogger(__name__)


class WatchRequest(StrictModel):
    """``watch``: follow a process of the agent's machine.

    The agent first sends :class:`Watching`, and replies when the process has ended. A client that
    disconnects ends the watch, not the process. If there is no process of that pid, the agent only
    replies.

    Attributes:
        others: processes that the client watches already.
    """

    pid: int = Field(gt=0)
    others: Annotated[tuple[ProcessIdentity, ...], FailFast()] = ()


class Watching(StrictModel):
    """The agent holds the process.

    Attributes:
        is_supervised: the agent has started it for the launcher, and reports how it ends.
        ended: other processes that have ended; the replies to their watches may come later.
    """

    identity: ProcessIdentity
    is_supervised: bool
    ended: Annotated[tuple[ProcessIdentity, ...], FailFast()]


class KillRequest(StrictModel):
    """``kill``: kill a process that was watched, if it still runs.

    The agent refuses to kill one that neither it nor a process of its own has started.
    """

    identity: ProcessIdentity


class ProcessRequests:
    """The agent's end: serves ``watch`` and ``kill``."""

    def __init__(self, is_started: Callable[[int], bool]) -> None:
        """``is_started``: whether the agent has started a process for the launcher."""
        self._is_started = is_started
        self._descendants: set[ProcessIdentity] = set()
        """Of the agent, among the processes that were watched: their parents may have ended."""

    def handlers(
        self, params: Mapping[str, Any], client: ClientConnection
    ) -> dict[str, Callable[[], Awaitable[None]]]:
        """The requests of a client, by method."""
        return {
            "watch": lambda: self._watch(WatchRequest.model_validate(params), client),
            "kill": lambda: self._kill(KillRequest.model_validate(params)),
        }

    async def _watch(self, request: WatchRequest, client: ClientConnection) -> None:
        process = await self._open(request.pid)
        if process is None:
            return
        ended = asyncio.Event()
        process.watch(lambda _why: ended.set())
        try:
            identity = ProcessIdentity.of(request.pid)
            if identity is None:  # it has been reaped meanwhile
                return
            if process.is_descendant:
                self._descendants = {own for own in self._descendants if own.is_alive()}
                self._descendants.add(identity)
            client.send(
                Watching(
                    identity=identity,
                    is_supervised=process.is_supervised,
                    ended=tuple(other for other in request.others if not other.is_alive()),
                )
            )
            await ended.wait()
        finally:
            process.close()

    async def _open(self, pid: int) -> LocalProcess | None:
        """The process, once it can be opened; ``None``: it has ended."""
        while True:
            try:
                return LocalProcess(pid, self._is_started)
            except ProcessLookupError:
                return None
            except OSError as error:  # too few descriptors, for example: that passes
                _log.warning("process %d cannot be watched yet: %s", pid, error)
                await asyncio.sleep(_OPEN_PAUSE_S)

    async def _kill(self, request: KillRequest) -> None:
        if request.identity not in self._descendants:
            raise ControlError(
                f"process {request.identity.pid} is not killed: this agent did not start it"
            )
        request.identity.send_signal(signal.SIGKILL)


class MachineProcesses:
    """The controller's end: the processes of one other machine (see :class:`Processes`)."""

    def __init__(self, machine: str, agent: Path) -> None:
        """``agent``: the socket of the machine's agent, relayed to this machine."""
        self._machine = machine
        self._agent = agent
        self.who = f"machine {machine}"
        self._watched: set[_MachineProcess] = set()
        self._kills: set[asyncio.Task[None]] = set()

    async def open(self, pid: int) -> _MachineProcess:
        """Have the agent take hold of a process."""
        process = _MachineProcess(self, pid)
        try:
            watching = await process.opened()
        except BaseException:
            process.close()
            raise
        for other in self._watched:
            other.is_known_ended |= other.identity in watching.ended
        self._watched.add(process)
        return process

    async def wait(self) -> None:
        """Wait until the processes to kill are killed, or the agent does not answer."""
        if self._kills:
            await asyncio.wait(self._kills)

    def client(self) -> RequestClient:
        """A client of the machine's agent."""
        return RequestClient(self._agent, who=self.who, is_patient=False, max_bytes=_MAX_BYTES)

    def kill(self, identity: ProcessIdentity) -> None:
        """Ask the agent to kill a process."""
        task = asyncio.ensure_future(self._kill(identity))
        self._kills.add(task)
        task.add_done_callback(self._kills.discard)

    def watched(self) -> tuple[ProcessIdentity, ...]:
        """The processes that are watched."""
        return tuple(process.identity for process in self._watched)

    def forget(self, process: _MachineProcess) -> None:
        """A process is no longer watched."""
        self._watched.discard(process)

    def describe_loss(self) -> str:
        """Why processes of the machine count as ended when its agent does not answer."""
        return f"was on machine {self._machine}, which has left or does not answer"

    async def _kill(self, identity: ProcessIdentity) -> None:
        client = self.client()
        try:
            await client.request(
                "kill", KillRequest(identity=identity).model_dump(), _KILL_TIMEOUT_S
            )
        except InnetError as error:  # a lost machine's agent ends its processes itself
            _log.warning("process %d of %s: %s", identity.pid, self._machine, error)
        finally:
            client.close()


class _MachineProcess:
    """A process that an agent holds, as long as the request to watch it lasts."""

    def __init__(self, machine: MachineProcesses, pid: int) -> None:
        self._machine = machine
        self._pid = pid
        self._client = machine.client()
        loop = asyncio.get_running_loop()
        self._watching: asyncio.Future[Watching] = loop.create_future()
        self._request = asyncio.ensure_future(self._watch())
        self.is_known_ended = False

    @property
    def identity(self) -> ProcessIdentity:
        """The identity that the agent reported."""
        return self._watching.result().identity

    @property
    def is_supervised(self) -> bool:
        return self._watching.result().is_supervised

    async def opened(self) -> Watching:
        """Wait until the agent holds the process."""
        waited = (self._watching, self._request)
        await asyncio.wait(waited, timeout=_ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if self._watching.done():
            return self._watching.result()
        if not self._request.done():
            raise NoAnswer(f"{self._machine.describe_loss()} within {_ANSWER_TIMEOUT_S:g} s")
        if why := self._request.result():
            raise NoAnswer(why)
        raise ProcessLookupError(self._pid)

    def watch(self, on_ended: OnEnded) -> None:
        """See :class:`WatchedProcess`."""

        def ended(request: asyncio.Task[str]) -> None:
            if not request.cancelled():
                on_ended(request.result())

        self._request.add_done_callback(ended)

    def has_ended(self) -> bool:
        return self.is_known_ended

    def kill(self) -> None:
        self._machine.kill(self.identity)

    def close(self) -> None:
        self._machine.forget(self)
        self._request.cancel()
        self._client.close()

    async def _watch(self) -> str:
        """Until the process has ended, or has been lost with its machine: why, then."""

        def take(document: Any) -> None:
            if not self._watching.done():
                self._watching.set_result(checked(Watching, document, self._machine.who))

        request = WatchRequest(pid=self._pid, others=self._machine.watched()).model_dump()
        try:
            await self._client.request("watch", request, None, take)
        except NoAnswer:
            return self._machine.describe_loss()
        except InnetError as error:
            return str(error)
        return ""
