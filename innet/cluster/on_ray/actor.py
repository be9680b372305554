"""The actor of a machine: supervises the agent there, as long as Ray keeps the actor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.cluster.machines.agent_key import key_path
from innet.cluster.machines.messages import STARTER_VARIABLE, own_version
from innet.errors import EXIT_REFUSED
from innet.private_files import write_private

_FOLDER: Final = "innet-join-"
_PYTHON_MODULE: Final = (sys.executable, "-P", "-m")
_END_S: Final = 8.0
_MAX_LINE_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Joining:
    """The token and the options with which a machine joins.

    Attributes:
        machine: its name.
        address: of the launcher.
        token: the content of a token file with the secret of this machine alone.
        key: the content of the machine's key file, the same for each start of its actor.
        version: of innet at the launcher.
    """

    machine: str
    address: str
    token: str = field(repr=False)
    key: str = field(repr=False)
    version: str


@dataclass(frozen=True)
class Report:
    """The events on a machine since the last report.

    Attributes:
        lines: that the agent has printed.
        exit_code: of the agent, once it has ended.
        problem: why there is no agent.
    """

    lines: tuple[str, ...] = ()
    exit_code: int | None = None
    problem: str = ""

    @property
    def is_last(self) -> bool:
        """Whether nothing more comes from this machine."""
        return self.exit_code is not None or bool(self.problem)


class MachineActor:
    """Runs ``innet node join`` on its machine.

    An agent that the launcher refuses, or that leaves because the network has ended, is not
    restarted. An agent that fails otherwise ends this actor, which Ray restarts up to its limit.
    """

    def __init__(self) -> None:
        self._agent: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        """Held by one of several calls: Ray may lose one, and the driver calls again."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        _remove_folders_of_the_dead()
        self._folder = tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-")

    async def follow(self, joining: Joining) -> Report:
        """Start the agent if it does not run, and wait until there is something to report."""
        if joining.version != own_version():
            return Report(
                problem=f"machine {joining.machine} ({os.uname().nodename}) has innet "
                f"{own_version()}, and the launcher has {joining.version}. Install the same "
                "version on all nodes of the Ray cluster"
            )
        async with self._starting:
            if self._agent is None:
                self._agent = await self._started(joining)
        lines = [await self._lines.get()]
        while not self._lines.empty():
            lines.append(self._lines.get_nowait())
        said = tuple(line for line in lines if line is not None)
        if None not in lines:
            return Report(said)
        self._lines.put_nowait(None)  # also for a caller whose report is lost on the way
        if said:
            return Report(said)
        code = await self._agent.wait()
        if code not in (0, EXIT_REFUSED):
            self._fail(joining.machine, code)
        return Report(exit_code=code)

    async def end(self) -> None:
        """End the agent, which removes its files on the machine."""
        if self._agent is not None and self._agent.returncode is None:
            self._agent.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._agent.wait(), _END_S)
        self._folder.cleanup()

    async def _started(self, joining: Joining) -> asyncio.subprocess.Process:
        token_file = Path(self._folder.name) / "token"
        write_private(token_file, joining.token)
        write_private(key_path(token_file, joining.machine), joining.key)
        agent = await asyncio.create_subprocess_exec(
            *_PYTHON_MODULE,
            "innet.cluster.on_ray.agent_parent",
            *(*_PYTHON_MODULE, "innet", "node", "join", joining.address),
            *("--token-file", str(token_file), "--name", joining.machine),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", STARTER_VARIABLE: "Ray"},
            limit=_MAX_LINE_BYTES,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        task = asyncio.create_task(self._read(agent))
        self._tasks.add(task)
        return agent

    async def _read(self, agent: asyncio.subprocess.Process) -> None:
        assert agent.stdout is not None
        while True:
            try:
                line = await agent.stdout.readline()
            except ValueError:  # a line above the limit; what comes after it is read
                self._lines.put_nowait(f"(a line of more than {_MAX_LINE_BYTES} bytes was dropped)")
                continue
            if not line:
                break
            self._lines.put_nowait(line.decode(errors="replace").rstrip())
        self._lines.put_nowait(None)

    def _fail(self, machine: str, code: int) -> None:
        self._folder.cleanup()
        print(f"the agent of machine {machine} ended with {code}", file=sys.stderr, flush=True)
        os._exit(1)


def _remove_folders_of_the_dead() -> None:
    """Remove the tokens of actors of this user that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
        is_own = folder.lstat().st_uid == os.geteuid()
        if is_own and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _end_with_parent() -> None:
    set_parent_death_signal(signal.SIGTERM)
