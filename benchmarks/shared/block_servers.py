"""Starts servers of block stores, and says what they need. Clients are in ``block_stores.py``."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from innet.cluster.emulation.local_fabric import free_port
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.errors import EmulationError
from shared.block_stores import MEMORY, NIXL_MEMORY

_START_S: Final = 30.0
_POLL_S: Final = 0.02
_PATH: Final = Path(__file__).parents[1]
_PROGRAM: Final = ("env", f"PYTHONPATH={_PATH}", sys.executable, "-m", "shared.block_stores")


@dataclass(frozen=True)
class Place:
    """Where the processes of a store run.

    Attributes:
        start: starts one.
        address: of the machine.
    """

    start: Callable[[ProcessSpec], SupervisedProcess]
    address: str = "127.0.0.1"


def missing_requirement(store: str) -> str | None:
    """What ``store`` needs and this machine lacks; ``None`` when it can run."""
    if store.startswith("redis"):
        if shutil.which("redis-server") is None:
            return "redis-server is not installed (apt-get install redis-server)"
        for module in ("redis", "hiredis"):
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed (pip install redis hiredis)"
    if store == "mooncake" and importlib.util.find_spec("mooncake") is None:
        return "Mooncake is not installed (pip install --no-deps mooncake-transfer-engine-non-cuda)"
    if store.startswith("nixl") and importlib.util.find_spec("nixl") is None:
        return "NIXL is not installed (pip install --no-deps nixl nixl-cu12)"
    return None


def client_command(store: str, socket_path: Path, *arguments: str) -> tuple[str, ...]:
    """The command of a client's process, which takes turns at the conductor's socket.

    ``arguments`` are the server's and the client's address, or of innet's own ranks (``own``) the
    rest of theirs.
    """
    return (*_PROGRAM, store, str(socket_path), *arguments)


async def start_redis(place: Place) -> str:
    """Start a Redis server without persistence; returns its address."""
    port = free_port()
    options = f"--bind {place.address} --port {port} --appendonly no --protected-mode no --save"
    command = ("redis-server", *options.split(), "")
    server = place.start(ProcessSpec("redis-server", command))
    await _until_printed(server, "Ready to accept connections")
    return f"{place.address}:{port}"


async def start_mooncake(place: Place, offered_bytes: int) -> str:
    """Start Mooncake's master, and a process that holds blocks; returns the master's address."""
    import mooncake

    port, metrics_port = free_port(), free_port()
    program = Path(next(iter(mooncake.__path__))) / "mooncake_master"
    options = (
        f"--rpc_address={place.address} --rpc_port={port} "
        f"--metrics_host={place.address} --metrics_port={metrics_port} --logtostderr"
    )
    master = place.start(ProcessSpec("mooncake-master", (str(program), *options.split())))
    await _until_printed(master, "Master admin server started")
    address = f"{place.address}:{port}"
    argv = (*_PROGRAM, MEMORY, address, place.address, str(offered_bytes))
    await _until_printed(place.start(ProcessSpec("mooncake-memory", argv)), "ready")
    return address


async def start_nixl(place: Place, offered_bytes: int) -> str:
    """Start a process with memory for NIXL's clients; returns its address."""
    port = free_port()
    argv = (*_PROGRAM, NIXL_MEMORY, place.address, str(port), str(offered_bytes))
    await _until_printed(place.start(ProcessSpec("nixl-memory", argv)), "ready")
    return f"{place.address}:{port}"


async def _until_printed(server: SupervisedProcess, text: str) -> None:
    try:
        async with asyncio.timeout(_START_S):
            while not any(text in line for line in server.tail):
                if server.returncode is not None:
                    raise EmulationError(server.failure_report())
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise EmulationError(
            f"not ready after {_START_S:.0f} s: {server.failure_report()}"
        ) from None
