"""A launcher with a listener and a token file, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from innet.cluster.machines.addresses import Address
from innet.cluster.machines.connection import LauncherConnection
from innet.cluster.machines.launcher_identity import LauncherIdentity
from innet.cluster.machines.listener import MachineListener
from innet.cluster.machines.messages import Heartbeats

LOOPBACK = Address.parsed("127.0.0.1:0")
PATIENT = Heartbeats(interval_s=0.05, timeout_s=60.0)
"""A busy machine is not taken for a lost one."""


@dataclass
class Cluster:
    """A launcher's run directory, its listener and a token file."""

    listener: MachineListener
    run_dir: Path
    token: Path

    def connection(
        self,
        machine: str | None = None,
        *,
        token: Path | None = None,
        address: Address | None = None,
        patience_s: float = 60.0,
        say: Callable[[str], object] = print,
    ) -> LauncherConnection:
        return LauncherConnection(
            token or self.token,
            address or self.listener.address,
            machine=machine,
            patience_s=patience_s,
            say=say,
        )


@asynccontextmanager
async def cluster_of(
    tmp_path: Path,
    *machines: str,
    offered: tuple[str, ...] = (),
    address: Address = LOOPBACK,
    heartbeats: Heartbeats = PATIENT,
    network: str = "prod",
) -> AsyncIterator[Cluster]:
    run_dir = tmp_path / network
    run_dir.mkdir(exist_ok=True)
    listener = MachineListener(
        address,
        LauncherIdentity.made(network, machines),
        run_dir,
        offered=lambda _machine: {name: run_dir / name for name in offered},
        heartbeats=heartbeats,
    )
    async with listener:
        token = tmp_path / f"{network}.token"
        listener.token_file().save(token)
        yield Cluster(listener, run_dir, token)


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir()
    return made
