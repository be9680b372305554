"""The launcher's requests to the agent of one machine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.emulation.processes import ProcessGroup
from innet.cluster.machines.commands import OpenRequest, agent_socket_name
from innet.cluster.machines.remote import RemoteMachine
from innet.cluster.requests import ClientConnection, RequestServer
from innet.node.requests import ControlRequest

OPENED = {"address": "10.0.0.2", "sockets": {}, "run_dir": "/run/h1", "processors": 2}


class Agent:
    """An agent that has written a file only once it was asked for a port."""

    def __init__(self) -> None:
        self.is_writing = asyncio.Event()
        self._was_asked = asyncio.Event()

    async def respond(self, request: ControlRequest, _client: ClientConnection) -> Any:
        if request.method == "open":
            return OPENED
        if request.method == "write":
            self.is_writing.set()
            await self._was_asked.wait()
            return None
        self._was_asked.set()
        return {"port": 4711}


def machine_in(run_dir: Path) -> RemoteMachine:
    return RemoteMachine("h1", "10.0.0.2", run_dir, ProcessGroup("net", lambda _who, _line: None))


FILES: Mapping[str, str] = {"h1.json": "{}"}


@pytest.mark.parametrize("is_socket_removed", [False, True])
async def test_a_slow_request_holds_up_no_other(
    short_directory: Path, is_socket_removed: bool
) -> None:
    agent, machine = Agent(), machine_in(short_directory)
    path = short_directory / agent_socket_name("h1")
    async with RequestServer(path, agent.respond, who="the agent"):
        await machine.open(OpenRequest(topology="", seed=1, shared_memory=True))
        if is_socket_removed:
            path.unlink()
        writing = asyncio.ensure_future(machine.write(FILES))
        await agent.is_writing.wait()
        async with asyncio.timeout(60):
            assert await machine.free_port() == 4711
            await writing
        await machine.close()
