"""A Ray cluster for tests: a raylet on each of some machines, with labels."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.several_machines.machines import INNET, Machines, Program

RAY = str(Path(sys.executable).parent / "ray")
LEFTOVERS = str(Path(__file__).with_name("leftovers.py"))
SUMS = str(Path(__file__).parents[1] / "several_machines" / "workers" / "sums.py")
QUICK = ("--set", "recovery.machine_timeout_s=2", "--set", "recovery.heartbeat_interval_s=0.2")
CLIENT_SERVER = "ray://10.0.0.1:10001"
_ENVIRONMENT = {
    "RAY_ADDRESS": "10.0.0.1:6379",  # Ray looks for others among the processes of all machines
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # a token would lie in the user's home
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "8",
    "RAY_prestart_worker_first_driver": "0",  # workers that nobody uses
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",
}
_STARTS = 3
_OPTIONS = (
    *("--block", "--object-store-memory=80000000", "--disable-usage-stats"),
    "--include-log-monitor=false",  # a process that copies logs to drivers
)


class RayCluster:
    """Raylets on machines ``h0`` (the head), ``h1``, …; each other one has two processors."""

    def __init__(self, machines: Machines, **environment: str) -> None:
        self.machines = machines
        self._environment = _ENVIRONMENT | environment
        self._raylets: dict[str, Program] = {}
        self._watch: Program | None = None

    async def start(self, labels: Mapping[str, str], *head: str) -> None:
        """Start the head, for the launcher alone, and a node on each machine of ``labels``.

        ``head`` are other options for the head.
        """
        await self._start(
            *("h0", "--head", "--port=6379", "--include-dashboard=false", "--no-monitor"),
            *("--temp-dir", str(self.machines.folder / "r"), "--node-ip-address=10.0.0.1"),
            *(head or ("--num-cpus=0",)),
        )
        self._watch = self.python(LEFTOVERS)
        await asyncio.gather(*(self.add(machine, text) for machine, text in labels.items()))

    async def add(self, machine: str, labels: str) -> None:
        """Start a node on a machine."""
        where = ("--address=10.0.0.1:6379", f"--node-ip-address={_address(machine)}")
        await self._start(machine, *where, "--num-cpus=2", "--labels", labels)

    async def _start(self, machine: str, *arguments: str) -> None:
        """Start a raylet. Ray gives it 30 s, which may be too little beside other tests."""
        argv = (*self._in_ray(), RAY, "start", *_OPTIONS, *arguments)
        for attempt in range(_STARTS):
            self._raylets[machine] = self.machines.start(machine, *argv)
            try:
                await self._raylets[machine].says("Ray runtime started")
            except AssertionError:
                if attempt == _STARTS - 1:
                    raise
            else:
                return

    def _in_ray(self, **changes: str) -> tuple[str, ...]:
        environment = self._environment | changes
        return ("env", *(f"{name}={value}" for name, value in environment.items()))

    async def kill(self, machine: str) -> None:
        """Kill a node, with all that it runs."""
        raylet = self._raylets.pop(machine).process
        assert raylet is not None
        raylet.send_signal(signal.SIGKILL)
        await raylet.wait()

    async def kill_raylet(self, machine: str) -> None:
        """Kill the raylet of a node alone; all else there is to end by itself."""
        os.kill(self.pid_of("raylet/raylet", f"--node_ip_address={_address(machine)}"), 9)
        await self._raylets.pop(machine).ends()

    def pid_of(self, *texts: str) -> int:
        """The process of this cluster whose command line contains all texts."""
        (pid,) = pids_with(*texts, str(self.machines.folder))
        return pid

    def up(self, topology: str, *options: str, name: str, **environment: str) -> Program:
        """Launch a network from the head's machine."""
        path = self.machines.folder / f"{name}.yaml"
        path.write_text(topology)
        argv = (*self._in_ray(**environment), *INNET, "up", str(path), "--name", name, *options)
        return self.machines.start("h0", *argv)

    def python(self, program: str, *arguments: str) -> Program:
        """Start a program of Python on the head's machine."""
        here = f"PYTHONPATH={Path(__file__).parents[3]}"
        return self.machines.start("h0", *self._in_ray(), here, sys.executable, program, *arguments)

    async def leftovers(self) -> list[str]:
        """What Ray still has once it has taken note of all ends."""
        assert self._watch is not None
        seen = len(self._watch.lines) + 1  # the next line may tell of the past
        while True:
            assert self._watch.process is not None
            assert self._watch.process.returncode is None, self._watch.text
            for line in self._watch.lines[seen:]:
                left: list[str] = json.loads(line) if line.startswith("[") else [line]
                if not left:
                    return left
            await asyncio.sleep(0.1)


def _address(machine: str) -> str:
    return f"10.0.0.{int(machine[1:]) + 1}"


def sums(text: str) -> list[str]:
    """The digests that the ranks of ``sums.py`` printed."""
    return re.findall(r"sum ([0-9a-f]{64})", text)


def processes_with(*texts: str) -> list[str]:
    """The command lines of live processes that contain all texts."""
    return list(_commands_with(*texts).values())


def pids_with(*texts: str) -> list[int]:
    """The live processes whose command lines contain all texts."""
    return list(_commands_with(*texts))


def _commands_with(*texts: str) -> dict[int, str]:
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if all(text in line for text in texts):
            found[int(directory.name)] = line
    return found
