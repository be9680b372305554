"""Ray as the launcher of a network sees it: through a driver in a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from innet.cluster.emulation.processes import ProcessGroup, ProcessSpec, SupervisedProcess
from innet.cluster.machines.agent_key import new_key_file
from innet.cluster.on_ray.orders import Notice, Order, Start
from innet.cluster.on_ray.placement import (
    ClusterView,
    Reservation,
    machines_with_room,
)
from innet.errors import EmulationError
from innet.extras import require
from innet.private_files import write_private
from innet.telemetry.logs.output import LAUNCHER_LABEL, OutputSink
from innet.topology.from_ray import ClusterMachine

_LABEL: Final = "ray"
_KEYS_NAME: Final = "ray.keys"
_DRIVER: Final = (sys.executable, "-P", "-m", "innet.cluster.on_ray.driver")
_VIEW_TIMEOUT_S: Final = 90.0
_END_S: Final = 15.0
_TAIL_LINES: Final = 5


@dataclass(frozen=True)
class RayOptions:
    """The cluster, and the resources of a machine in it.

    Attributes:
        cluster: ``ray``: the one that this machine is a node of; or ``ray://HOST:PORT``.
        resources: that each machine gets.
        wait_s: how long Ray may look for room.
        restarts: how often Ray may start the actor of a machine again.
    """

    cluster: str
    resources: Mapping[str, float]
    wait_s: float
    restarts: int


class RayMachines:
    """Starts the machines of a network on a Ray cluster, and ends them with it.

    Raises:
        InnetError: Ray is not installed.
    """

    def __init__(self, options: RayOptions) -> None:
        require("ray", "innet up --on ray")
        self._options = options
        self._address = "auto" if options.cluster == "ray" else options.cluster
        self._processes: ProcessGroup | None = None
        self._output: OutputSink = lambda *_: None
        self._driver: SupervisedProcess | None = None
        self._drivers_left = options.restarts
        self._is_closing = False
        self._failures: asyncio.Queue[str] = asyncio.Queue()
        self._has_said_why = False
        """Whether the driver has said why it ends."""
        self._is_over = False
        """Whether a driver has ended that is not started again."""
        self._has_machines = False
        """Whether an agent that the driver follows has printed something."""
        self._given_up: set[str] = set()
        """Machines that Ray does not start again, though the driver lives."""
        self._said: deque[str] = deque(maxlen=_TAIL_LINES)

    @cached_property
    def view(self) -> ClusterView:
        """The cluster's nodes at the first request.

        Raises:
            EmulationError: it cannot be reached.
        """
        order = Order(cluster=self._address).model_dump_json()
        try:
            asked = subprocess.run(
                [*_DRIVER, order], capture_output=True, text=True, timeout=_VIEW_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise EmulationError(
                f"the Ray cluster at {self._address} does not answer within {_VIEW_TIMEOUT_S:g} s. "
                "Check the address, and set RAY_USE_TLS and RAY_AUTH_MODE as the cluster has them"
            ) from None
        notices = [notice for line in asked.stdout.splitlines() if (notice := _notice(line))]
        for notice in notices:
            if notice.error:
                raise EmulationError(notice.error)
            if notice.view is not None:
                return notice.view
        tail = (asked.stderr or asked.stdout).strip().splitlines()[-1:]
        raise EmulationError(
            f"Ray has ended the connection to {self._address} with {asked.returncode}: "
            f"{''.join(tail)}. Check the cluster with `ray status`"
        )

    def list_machines(self) -> Sequence[ClusterMachine]:
        """The nodes that have as much as is reserved on each."""
        return machines_with_room(self.view, self._options.resources)

    @property
    def own_address(self) -> str:
        """This machine's address, as seen from the cluster."""
        return self.view.own_address

    def start(
        self,
        run_dir: Path,
        address: str,
        token_file: Path,
        labels: Mapping[str, Mapping[str, str]],
        output: OutputSink,
    ) -> None:
        """Let Ray start an agent for each machine of ``labels``, which join at ``address``."""
        options = self._options
        reservation = Reservation(
            machines=labels, resources=options.resources, wait_s=options.wait_s
        )
        start = Start(
            network=run_dir.name,
            reservation=reservation,
            address=address,
            token_file=token_file,
            keys_file=run_dir / _KEYS_NAME,
            restarts=options.restarts,
        )
        self._output = output
        keys = {machine: new_key_file(machine) for machine in labels}
        write_private(start.keys_file, json.dumps(keys))
        order = Order(cluster=self._address, start=start).model_dump_json()
        self._processes = ProcessGroup(run_dir.name, output)
        self._processes.on_exit(self._on_driver_ended)
        spec = ProcessSpec(label=_LABEL, argv=(*_DRIVER, order), grace_s=_END_S)
        self._driver = self._processes.spawn(spec, self._sink(output))

    async def failed(self) -> str:
        """Wait for the next reason why a machine, or all, cannot come any more."""
        return await self._failures.get()

    def remedy(self, machine: str) -> str:
        """The next step after a machine is lost, which depends on whether Ray restarts it."""
        is_over = self._has_said_why or self._is_over or machine in self._given_up
        if not is_over:
            return "Run the job again when `innet up` has printed that the machine is back"
        return "Ray does not start it again: end the network (innet down) and launch it anew"

    def _on_driver_ended(self, driver: SupervisedProcess) -> None:
        if self._has_said_why or self._is_closing:
            return
        how = f"the connection to Ray {driver.describe_end()}"
        may_restart = driver.returncode != 0 and self._has_machines and self._drivers_left
        if may_restart and self._processes is not None:
            self._drivers_left -= 1
            self._has_machines = False
            self._given_up.clear()
            self._said.clear()
            self._output(LAUNCHER_LABEL, f"{how}; Ray starts the machines again")
            self._driver = self._processes.spawn(driver.spec, self._sink(self._output))
            return
        self._is_over = True
        tail = "".join(f"\n  {line}" for line in self._said)
        self._failures.put_nowait(f"{how}. Check the cluster with `ray status`{tail}")

    async def close(self) -> None:
        """Wait until all agents have ended, and end those that do not."""
        self._is_closing = True
        if self._driver is None or self._processes is None:
            return
        if self._has_machines:  # whose agents have the order to end
            await asyncio.wait([asyncio.ensure_future(self._driver.wait())], timeout=_END_S)
        await self._processes.terminate()

    def _sink(self, output: OutputSink) -> OutputSink:
        """Passes on the driver's notices; Ray's own many lines are kept for a failure."""

        def take(_label: str, line: str) -> None:
            notice = _notice(line)
            if notice is None:
                self._said.append(line)
            elif notice.error:
                self._failures.put_nowait(notice.error)
                self._has_said_why |= notice.machine is None
                if notice.machine is not None:
                    self._given_up.add(notice.machine)
            elif notice.line:
                self._has_machines |= notice.machine is not None
                output(notice.machine or LAUNCHER_LABEL, notice.line)

        return take


def _notice(line: str) -> Notice | None:
    """The notice in a line of the driver; ``None``: Ray has printed the line."""
    try:
        return Notice.model_validate_json(line)
    except ValidationError:
        return None
