"""Starts the servers of the stores that others have made."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec, SupervisedProcess
from innet.errors import EmulationError

_START_S = 30.0
_POLL_S = 0.02


def missing_requirement(store: str) -> str | None:
    """What a store needs and this machine has not, ``None`` when it can run."""
    if store.startswith("redis"):
        if shutil.which("redis-server") is None:
            return "redis-server is not installed (apt-get install redis-server)"
        for module in ("redis", "hiredis"):
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed (pip install redis hiredis)"
    if store == "mooncake" and importlib.util.find_spec("mooncake") is None:
        return "Mooncake is not installed (pip install --no-deps mooncake-transfer-engine-non-cuda)"
    return None


async def start_redis(processes: ProcessGroup) -> str:
    """A server without persistence; its port.

    Raises:
        EmulationError: it does not start.
    """
    port = _free_port()
    command = f"redis-server --bind 127.0.0.1 --port {port} --appendonly no --save"
    server = processes.spawn(ProcessSpec("redis-server", (*command.split(), "")))
    await _listening(server, port)
    return str(port)


async def start_mooncake(processes: ProcessGroup, offered_bytes: int) -> str:
    """A master, and a process with memory for blocks; the master's port.

    Raises:
        EmulationError: one of them does not start.
    """
    import mooncake

    port, metrics_port = _free_port(), _free_port()
    program = Path(next(iter(mooncake.__path__))) / "mooncake_master"
    options = (
        f"--rpc_address=127.0.0.1 --rpc_port={port} "
        f"--metrics_host=127.0.0.1 --metrics_port={metrics_port} --logtostderr"
    )
    master = processes.spawn(ProcessSpec("mooncake-master", (str(program), *options.split())))
    await _listening(master, port)
    module = "innet.lab.compare.block_stores.mooncake"
    argv = (sys.executable, "-m", module, str(port), str(offered_bytes))
    segment = processes.spawn(ProcessSpec("mooncake-segment", argv))
    await _until(segment, lambda: "ready" in segment.tail)
    return str(port)


async def _listening(server: SupervisedProcess, port: int) -> None:
    def accepts() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    await _until(server, accepts)


async def _until(server: SupervisedProcess, is_ready: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(_START_S):
            while not is_ready():
                if server.returncode is not None:
                    raise EmulationError(server.failure_report())
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise EmulationError(
            f"not ready after {_START_S:.0f} s: {server.failure_report()}"
        ) from None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
