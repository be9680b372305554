"""What an agent does for its launcher."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec, SupervisedProcess
from innet.cluster.emulation.runs import RunRecord
from innet.cluster.machines.commands import Started, StartRequest, parameters
from innet.cluster.machines.connection import LauncherConnection
from innet.cluster.machines.machine_commands import MachineCommands
from innet.cluster.requests import ClientConnection
from innet.node.requests import ControlRequest


class OneNode:
    """A network that starts programs without links."""

    def __init__(self) -> None:
        self._processes = ProcessGroup("net.h1", lambda _label, _line: None)

    def start(self, _node: str, spec: ProcessSpec, output: Any) -> SupervisedProcess:
        return self._processes.spawn(spec, output)


async def test_a_process_that_has_ended_is_no_longer_supervised(tmp_path: Path) -> None:
    """Its pid may be that of a process that another launcher starts."""
    launcher = cast(LauncherConnection, SimpleNamespace(machine="h1"))
    record = cast(RunRecord, SimpleNamespace(run_dir=tmp_path))
    commands = MachineCommands(launcher, record, "127.0.0.1", lambda _line: None)
    commands._network = cast(Network, OneNode())
    pids = []

    def take(document: Any) -> None:
        if isinstance(document, Started):
            assert commands._has_started(document.pid)
            pids.append(document.pid)

    client = cast(ClientConnection, SimpleNamespace(send=take, is_far_behind=False))
    request = StartRequest(label="h1", node="h1", argv=("true",), environment={})
    for _ in range(2):
        started = ControlRequest(method="start", params=parameters(request))
        assert (await commands.respond(started, client)).returncode == 0
    assert len(pids) == 2
    assert not any(map(commands._has_started, pids))
