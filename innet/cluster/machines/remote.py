"""A machine of a cluster as the launcher sees it: requests to its agent, and its processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, RootModel

from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec, SupervisedProcess
from innet.cluster.emulation.runs import ProcessIdentity
from innet.cluster.machines.commands import (
    ConfigureRequest,
    ConnectReply,
    ConnectRequest,
    Line,
    OpenReply,
    OpenRequest,
    PortReply,
    RunFile,
    SignalRequest,
    Started,
    StartReply,
    StartRequest,
    WriteRequest,
    agent_socket_name,
    parameters,
)
from innet.cluster.requests import RequestClient, checked
from innet.errors import EmulationError, InnetError, NoAnswer
from innet.printable import printable
from innet.telemetry.logs.output import OutputSink

_ANSWER_TIMEOUT_S = 20.0
_LOSS_S = 1.0
"""At most, between the end of a machine's processes and that of its session."""
_REQUESTS_AT_ONCE = 4
_UNKNOWN = ProcessIdentity(pid=0, start_ticks=0)
_MAX_BYTES = 1 << 20
"""Of a document of an agent; a line of a program's output has at most a sixteenth of it."""
_NOT_STARTED = 127
"""The exit code of a shell that does not find a program."""

# Variables that describe the machine on which `innet run` was started.
_OF_ONE_MACHINE = frozenset(
    {"HOME", "HOSTNAME", "LOGNAME", "MAIL", "USER"}
    | {"PATH", "OLDPWD", "PWD", "TEMP", "TMP", "TMPDIR", "VIRTUAL_ENV"}
    | {"DISPLAY", "SHELL", "SHLVL", "TERM", "_"}
)
_PREFIXES_OF_ONE_MACHINE = ("XDG_", "SSH_", "DBUS_")

_log = logging.getLogger(__name__)
_MessageT = TypeVar("_MessageT", bound=BaseModel)


class _Anything(RootModel[object]):
    """A reply that nobody reads."""


class RemoteProcess(SupervisedProcess):
    """A process that the agent of a machine has started, and ends."""

    def __init__(self, spec: ProcessSpec, machine: RemoteMachine) -> None:
        super().__init__(spec, _UNKNOWN)
        self.machine = machine.name
        self._machine = machine
        self._early_signals: list[signal.Signals] = []
        self._why = ""

    @property
    def place(self) -> str:
        """The process as shown to users: ``pid 4711 on machine h3``."""
        pid = "" if self.identity is _UNKNOWN else f"pid {self.identity.pid} "
        return f"{pid}on machine {self._machine.name}"

    def send_signal(self, signum: signal.Signals) -> None:
        """Signal the process and what it started in its process group; no-op once it ended."""
        if self.returncode is not None:
            return
        if self.identity is _UNKNOWN:
            self._early_signals.append(signum)
        else:
            self._machine.send_signal(self.label, signum)

    def describe_end(self) -> str:
        """The end of :meth:`describe`; of a process whose machine is lost, why it is."""
        return self._why or super().describe_end()

    def set_started(self, identity: ProcessIdentity) -> None:
        """The agent has started it; signals that came too early are sent."""
        self.identity = identity
        early, self._early_signals = self._early_signals, []
        for signum in early:
            self.send_signal(signum)

    def set_why(self, why: str) -> None:
        """Why there will be no exit status."""
        self._why = why


class RemoteMachine:
    """One machine that has joined.

    Attributes:
        name: the machine's.
        address: where its agent has connected from, as an IP address.
        lost_because: why the machine does not take part any more; empty while it does.
    """

    def __init__(self, name: str, address: str, run_dir: Path, processes: ProcessGroup) -> None:
        """
        Args:
            run_dir: the launcher's, with the socket that is relayed to the agent.
            processes: of the run; those of this machine join them.
        """
        self.name = name
        self.address = address
        self._run_dir = run_dir
        self._processes = processes
        self._opened: OpenReply | None = None
        self.lost_because = ""
        self._who = f"machine {name}"
        self._free = [self._client() for _ in range(_REQUESTS_AT_ONCE)]
        self._turns = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self._is_lost = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def opened(self) -> OpenReply:
        """The machine's reply when its links were opened."""
        assert self._opened is not None, "open() comes first"
        return self._opened

    async def open(self, request: OpenRequest) -> OpenReply:
        """Let the machine make its links."""
        with suppress(OSError):  # the request says why
            # They stay connected: connections outlive the socket's file, which somebody may remove.
            await asyncio.gather(*(client.connect() for client in self._free))
        self._opened = await self._reply("open", parameters(request), OpenReply)
        return self._opened

    async def connect(self, request: ConnectRequest) -> ConnectReply:
        """Connect the machine's links."""
        return await self._reply("connect", parameters(request), ConnectReply)

    async def configure(self, request: ConfigureRequest) -> None:
        """Let the machine write its nodes' configurations."""
        await self._client_request("configure", parameters(request))

    async def free_port(self) -> int:
        """A TCP port of the machine that no socket has at this moment."""
        return (await self._reply("port", {}, PortReply)).port

    async def write(self, files: Mapping[str, str]) -> None:
        """Write files into the machine's run directory."""
        if files:
            await self._client_request("write", parameters(_written(files)))

    def start(self, spec: ProcessSpec, output: OutputSink | None) -> RemoteProcess:
        """Start a process; whether that succeeded shows in how it ends."""
        process = RemoteProcess(spec, self)
        emit = self._processes.adopt(process, output)
        files = self.files_of(spec.environment or {}, spec.files)
        request = StartRequest(
            label=spec.label,
            node=spec.node or "",
            argv=tuple(self.translated(_portable(argument)) for argument in spec.argv),
            environment=self.environment(spec.environment or {}),
            directory=spec.directory,
            grace_s=spec.grace_s,
        )
        self._run(self._follow(process, request, files, emit))
        return process

    def send_signal(self, label: str, signum: signal.Signals) -> None:
        """Signal one of the machine's processes, as soon as the agent reads it."""
        request = SignalRequest(label=label, signum=int(signum))
        self._run(self._try("signal", parameters(request)))

    def lose(self, why: str) -> None:
        """The machine does not answer: its processes end, as its streams are closed."""
        self.lost_because = why
        self._is_lost.set()

    async def close(self) -> None:
        """Wait for the requests in progress."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._free:
            client.close()

    def translated(self, text: str) -> str:
        """A text with paths of the machine's run directory in place of the launcher's."""
        return text.replace(f"{self._run_dir}/", f"{self.opened.run_dir}/")

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """An environment for the machine, without what describes another one."""
        return {
            name: self.translated(value)
            for name, value in environment.items()
            if name not in _OF_ONE_MACHINE and not name.startswith(_PREFIXES_OF_ONE_MACHINE)
        }

    def files_of(self, environment: Mapping[str, str], files: Sequence[Path]) -> dict[str, str]:
        """The content of ``files``, and of those of the run that an environment names."""
        named = (Path(value) for value in environment.values() if value.startswith("/"))
        paths = [path for path in named if path.parent == self._run_dir]
        return {path.name: path.read_text() for path in {*paths, *files} if path.is_file()}

    async def _follow(
        self,
        process: RemoteProcess,
        request: StartRequest,
        files: Mapping[str, str],
        emit: Callable[[str], None],
    ) -> None:
        def take(document: Any) -> None:
            if process.identity is not _UNKNOWN:
                emit(checked(Line, document, self._who).line)
                return
            started = checked(Started, document, self._who)
            process.set_started(ProcessIdentity(**started.model_dump()))
            self._processes.set_started(process)

        client = self._client()
        returncode = _NOT_STARTED
        try:
            if files:
                await client.request("write", parameters(_written(files)))
            reply = await client.request("start", parameters(request), None, take)
            returncode = checked(StartReply, reply, self._who).returncode
        except InnetError as error:
            if process.identity is not _UNKNOWN:
                returncode = -signal.SIGKILL
            if isinstance(error, NoAnswer):
                await self._until_lost()
            process.set_why(self._why_ended(str(error)))
        finally:
            client.close()
            self._processes.set_ended(process, returncode)

    async def _until_lost(self) -> None:
        """Wait a moment for why the machine is lost: its processes end before its session does."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_lost.wait(), _LOSS_S)

    def _why_ended(self, error: str) -> str:
        if self.lost_because:
            return f"was lost with its machine: {self.lost_because}"
        return f"could not go on: {printable(error)}"

    async def _client_request(self, method: str, params: Mapping[str, Any]) -> None:
        await self._reply(method, params, _Anything)

    async def _reply(
        self, method: str, params: Mapping[str, Any], model: type[_MessageT]
    ) -> _MessageT:
        """
        Raises:
            EmulationError: the agent refuses, does not answer, or replies with something else.
        """
        try:
            result = await self._request(method, params)
            return checked(model, result, self._who)
        except InnetError as error:
            why = self.lost_because or printable(str(error))
            raise EmulationError(f"machine {self.name} cannot go on: {why}") from error

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        """The agent's result; a slow request holds up no other, unless all connections are busy."""
        async with self._turns:
            client = self._free.pop()
            try:
                return await client.request(method, params, _ANSWER_TIMEOUT_S)
            finally:
                self._free.append(client)

    async def _try(self, method: str, params: Mapping[str, Any]) -> None:
        try:
            await self._client_request(method, params)
        except EmulationError as error:
            _log.info("%s: %s", method, error)

    def _client(self) -> RequestClient:
        path = self._run_dir / agent_socket_name(self.name)
        return RequestClient(path, who=self._who, is_patient=False, max_bytes=_MAX_BYTES)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _written(files: Mapping[str, str]) -> WriteRequest:
    return WriteRequest(files=tuple(RunFile(name=n, content=text) for n, text in files.items()))


def _portable(argument: str) -> str:
    return "python" if argument == sys.executable else argument
