"""Supervised child processes of a run: started in their namespace, watched, always ended.

A child runs in its own session, so the terminal's Ctrl-C reaches only the launcher, which then ends
the children in order. A child dies when the launcher dies for any reason (``PR_SET_PDEATHSIG``).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from innet.cluster.emulation.registry import registry_identity, runs_directory
from innet.cluster.emulation.runs import ProcessIdentity
from innet.cluster.emulation.syscalls import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    set_parent_death_signal,
    setns,
)
from innet.errors import EmulationError
from innet.node.node_config import REGISTRY_VARIABLE, RUN_ID_VARIABLE
from innet.telemetry.logs.output import OutputSink

DEFAULT_GRACE_S = 5.0
"""Time that a process of innet itself has between SIGTERM and SIGKILL."""
MOST_GRACE_S = 86400.0

_TAIL_LINES = 20
_READ_BYTES = 65536
# Read from a pipe after its process has ended: an escaped grandchild may keep writing.
_DRAIN_BYTES = 1 << 20


def describe_exit(returncode: int) -> str:
    """How a process ended, in words; ``returncode`` is negative for a signal.

    >>> describe_exit(-9)
    'killed by signal 9 (SIGKILL)'
    >>> describe_exit(3)
    'exited with code 3'
    """
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"killed by signal {-returncode}"
    return f"killed by signal {-returncode} ({name})"


@dataclass(frozen=True)
class Namespace:
    """Descriptors of the namespaces that a child enters; the user namespace first, if any."""

    network_fd: int
    user_fd: int | None


@dataclass(frozen=True)
class ProcessSpec:
    """A program to start, and the node on which it runs."""

    label: str
    """Unique in its group; stands before each line of output."""
    argv: tuple[str, ...]
    node: str | None = None
    environment: Mapping[str, str] | None = None
    """Added to the launcher's own environment."""
    directory: Path | None = None
    """Working directory; ``None``: the launcher's."""
    pass_fds: tuple[int, ...] = ()
    namespace: Namespace | None = None
    stdin: int | None = None
    """Descriptor of its standard input; ``None``: empty."""
    files: tuple[Path, ...] = ()
    """Files of the run that the process reads, besides those named in its environment."""
    grace_s: float = DEFAULT_GRACE_S
    """Time that the process has between SIGTERM and SIGKILL."""


class _LineReader:
    """Splits the output of a pipe into lines, inside the running event loop."""

    def __init__(self, fd: int, emit: Callable[[str], None]) -> None:
        self._fd = fd
        self._emit = emit
        self._partial = b""
        self._open = True
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def finish(self) -> None:
        """Read the rest of the pipe, then close it."""
        taken = 0
        while self._open and taken < _DRAIN_BYTES:
            count = self._read()
            if count == 0:
                break
            taken += count
        self._close()

    def _read(self) -> int:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            self._close()
            return 0
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _READ_BYTES:
            lines, self._partial = [*lines, self._partial], b""
        for line in lines:
            self._emit_bytes(line)
        return len(data)

    def _emit_bytes(self, line: bytes) -> None:
        self._emit(line.decode(errors="replace").rstrip("\r"))

    def _close(self) -> None:
        if not self._open:
            return
        self._open = False
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        if self._partial:
            self._emit_bytes(self._partial)


class SupervisedProcess:
    """One child of a :class:`ProcessGroup`."""

    machine: str | None = None
    """On which it runs; ``None``: the launcher's."""

    def __init__(self, spec: ProcessSpec, identity: ProcessIdentity) -> None:
        self.spec = spec
        self.identity = identity
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        """The last lines that the process printed."""
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def label(self) -> str:
        """The process's name in its group."""
        return self.spec.label

    @property
    def returncode(self) -> int | None:
        """Exit code, the negative number of the signal that ended it, or ``None`` while alive."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for the end of the process; returns its :attr:`returncode`."""
        return await asyncio.shield(self._ended)

    def send_signal(self, signum: signal.Signals) -> None:
        """Signal the process and what it started in its process group; no-op once it ended."""
        if self._ended.done():
            return
        try:
            os.killpg(self.identity.pid, signum)  # not reaped yet, so the number is still its own
        except ProcessLookupError:
            return

    def describe(self) -> str:
        """The state of the process, such as ``h3 (pid 4711) was killed by signal 9 (SIGKILL)``."""
        return f"{self.label} ({self.place}) {self.describe_end()}"

    @property
    def place(self) -> str:
        """The process as shown to users: ``pid 4711``."""
        return f"pid {self.identity.pid}"

    def describe_end(self) -> str:
        """The end of :meth:`describe`, without the name: ``was killed by signal 9 (SIGKILL)``."""
        if self.returncode is None:
            return "is running"
        verb = "was " if self.returncode < 0 else ""
        return f"{verb}{describe_exit(self.returncode)}"

    def failure_report(self) -> str:
        """:meth:`describe`, and the last lines that the process printed."""
        if not self.tail:
            return f"{self.describe()}; it printed nothing"
        return f"{self.describe()}; its last output:\n  " + "\n  ".join(self.tail)

    def set_ended(self, returncode: int) -> None:
        """Wake up the waiting callers; only the process's group calls this."""
        self._ended.set_result(returncode)


async def end_processes(
    processes: Iterable[SupervisedProcess], tell: Callable[[str], None] = lambda _text: None
) -> None:
    """End the running processes: SIGTERM, and SIGKILL after the grace period of each.

    ``tell`` receives a line about each that is killed.
    """

    async def end(process: SupervisedProcess) -> None:
        process.send_signal(signal.SIGTERM)
        grace_s = process.spec.grace_s
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except TimeoutError:
            tell(
                f"{process.label} ({process.place}) did not end within {grace_s:g} s of SIGTERM, "
                "and is killed"
            )
            process.send_signal(signal.SIGKILL)
            await process.wait()

    alive = [process for process in processes if process.returncode is None]
    await asyncio.gather(*(end(process) for process in alive))


ExitCallback = Callable[[SupervisedProcess], object]


class ProcessGroup:
    """Starts, watches and ends the processes of one run.

    Use it from the thread of the event loop, and let that thread live as long as the run: the
    kernel ends the children together with the thread that started them.
    """

    def __init__(
        self,
        run_id: str,
        output: OutputSink,
        on_spawn: Callable[[SupervisedProcess], None] | None = None,
    ) -> None:
        """``on_spawn`` takes each new process at once, so that clean-up can find it."""
        self._run_id = run_id
        self._output = output
        self._on_spawn = on_spawn
        self._exit_callbacks: list[ExitCallback] = []
        self._processes: dict[str, SupervisedProcess] = {}
        self._terminating = False

    @property
    def terminating(self) -> bool:
        """Whether all processes are being ended, so that exits are expected."""
        return self._terminating

    @property
    def processes(self) -> tuple[SupervisedProcess, ...]:
        """All processes started so far, the ended ones too."""
        return tuple(self._processes.values())

    def on_exit(self, callback: ExitCallback) -> None:
        """Call ``callback`` in the event loop after each process that ends."""
        self._exit_callbacks.append(callback)

    def spawn(self, spec: ProcessSpec, output: OutputSink | None = None) -> SupervisedProcess:
        """Start a process, whose lines go to ``output`` or else to the group's own sink."""
        self._require_free(spec.label)
        popen = self._start(spec)
        identity = ProcessIdentity.of(popen.pid)
        assert identity is not None, "an unreaped child is always in /proc"
        process = SupervisedProcess(spec, identity)
        self._processes[spec.label] = process
        self._watch(popen, process, output or self._output)
        if self._on_spawn is not None:
            self._on_spawn(process)
        return process

    def adopt(
        self, process: SupervisedProcess, output: OutputSink | None = None
    ) -> Callable[[str], None]:
        """Add a process that another machine's agent starts; returns what takes its lines."""
        self._require_free(process.label)
        self._processes[process.label] = process
        return _emitter(process, output or self._output)

    def set_started(self, process: SupervisedProcess) -> None:
        """A process that was adopted runs."""
        if self._on_spawn is not None:
            self._on_spawn(process)

    def set_ended(self, process: SupervisedProcess, returncode: int) -> None:
        """Record the end of a process, and call the callbacks."""
        for callback in self._exit_callbacks:
            asyncio.get_running_loop().call_soon(callback, process)  # each on its own: one may fail
        process.set_ended(returncode)

    def _require_free(self, label: str) -> None:
        previous = self._processes.get(label)
        if previous is not None and previous.returncode is None:
            raise EmulationError(
                f"a process named {label} is running already. Give the second one its own "
                "label, or wait for the first to end."
            )

    def begin_termination(self) -> None:
        """Mark the group as terminating: no process is restarted from now on."""
        self._terminating = True

    async def terminate(self) -> None:
        """End all processes: see :func:`end_processes`."""
        self._terminating = True
        await end_processes(self.processes)

    def kill(self) -> None:
        """Send SIGKILL to all processes now; :meth:`terminate` then has nothing to wait for."""
        for process in self.processes:
            process.send_signal(signal.SIGKILL)

    def _start(self, spec: ProcessSpec) -> subprocess.Popen[bytes]:
        environment = {
            # A pipe would make Python keep its output back until it is long.
            "PYTHONUNBUFFERED": "1",
            **os.environ,
            **(spec.environment or {}),
            RUN_ID_VARIABLE: self._run_id,
            REGISTRY_VARIABLE: registry_identity(runs_directory()),
        }
        try:
            return subprocess.Popen(
                spec.argv,
                stdin=subprocess.DEVNULL if spec.stdin is None else spec.stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=spec.directory,
                env=environment,
                pass_fds=spec.pass_fds,
                start_new_session=True,
                preexec_fn=_ChildSetup(spec.namespace),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EmulationError(
                f"cannot start {spec.argv[0]!r} for {spec.label}: {error}. "
                "Check that the program exists and may be executed."
            ) from error

    def _watch(
        self, popen: subprocess.Popen[bytes], process: SupervisedProcess, output: OutputSink
    ) -> None:
        assert popen.stdout is not None
        reader = _LineReader(os.dup(popen.stdout.fileno()), _emitter(process, output))
        popen.stdout.close()
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(popen.pid)

        def ended() -> None:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            # Before the pid is reaped, while it cannot belong to another process.
            process.send_signal(signal.SIGKILL)
            returncode = popen.wait()
            reader.finish()
            self.set_ended(process, returncode)

        loop.add_reader(pidfd, ended)


def _emitter(process: SupervisedProcess, output: OutputSink) -> Callable[[str], None]:
    sink: OutputSink | None = output

    def emit(line: str) -> None:
        nonlocal sink
        process.tail.append(line)
        if sink is None:
            return
        try:
            sink(process.label, line)
        except Exception as error:
            # The reader may be gone; the processes go on.
            sink = None
            asyncio.get_running_loop().call_exception_handler(
                {"message": "output can no longer be shown", "exception": error}
            )

    return emit


class _ChildSetup:
    """Runs in the child between fork and exec.

    It only makes system calls through bindings that are loaded already, because other threads of
    the launcher may have held any lock at the time of the fork.
    """

    def __init__(self, namespace: Namespace | None) -> None:
        self._namespace = namespace
        self._launcher_pid = os.getpid()

    def __call__(self) -> None:
        if self._namespace is not None:
            if self._namespace.user_fd is not None:
                setns(self._namespace.user_fd, CLONE_NEWUSER)
            setns(self._namespace.network_fd, CLONE_NEWNET)
        # After setns, which may reset it with the credentials.
        set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != self._launcher_pid:
            os._exit(128 + signal.SIGKILL)  # the launcher died before the line above
