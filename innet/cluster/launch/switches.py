"""The switch processes of a run: started, watched, and started again when they die."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Self

from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import SupervisedProcess
from innet.cluster.launch.restart_pause import pause_before_restart_s
from innet.errors import ControlError, EmulationError
from innet.node.control.messenger import ConnectToNode
from innet.settings import RecoverySettings

_START_TIMEOUT_S = 30.0
_PING_TIMEOUT_S = 1.0


class SwitchProcesses:
    """One process for each switch, as an async context manager.

    One that dies is started again after a pause, as often as the settings allow. The controller
    hears of it at both moments, and so the network works round the switch in between.
    """

    def __init__(
        self,
        network: Network,
        controller: RemoteController,
        connect: ConnectToNode,
        environment: Callable[[str], Mapping[str, str]],
        settings: RecoverySettings,
        say: Callable[[str], None],
    ) -> None:
        """``environment`` is added to the launcher's for a switch; ``say`` tells the user."""
        self._network = network
        self._controller = controller
        self._connect = connect
        self._environment = environment
        self._settings = settings
        self._say = say
        self._processes: dict[str, SupervisedProcess] = {}
        self._restarts: Counter[str] = Counter()
        self._recoveries: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Start all switches, and wait until they answer.

        Raises:
            EmulationError: one cannot be started, or does not answer.
        """
        for switch in self._network.topology.switches:
            self._start(switch)
        self._network.processes.on_exit(self._on_exit)
        await asyncio.gather(*(self._until_it_answers(switch) for switch in self._processes))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Start none again any more; the processes end with the network."""
        recoveries, self._recoveries = self._recoveries, set()
        for recovery in recoveries:
            recovery.cancel()
        await asyncio.gather(*recoveries, return_exceptions=True)

    def _start(self, switch: str) -> None:
        argv = [sys.executable, "-P", "-m", "innet.node", str(self._network.config_path(switch))]
        self._processes[switch] = self._network.spawn(switch, argv, self._environment(switch))

    async def _until_it_answers(self, switch: str) -> None:
        process = self._processes[switch]
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                await asyncio.to_thread(self._ping, switch)
                return
            except ControlError as error:
                if process.returncode is not None:
                    raise EmulationError(
                        f"switch {switch} did not start.\n{process.failure_report()}"
                    ) from error
                if time.monotonic() > deadline_s:
                    raise EmulationError(
                        f"switch {switch} did not answer within {_START_TIMEOUT_S:g} s; "
                        "is the machine overloaded?"
                    ) from error

    def _ping(self, switch: str) -> None:
        with self._connect(switch) as client:
            client.ask("ping", timeout_s=_PING_TIMEOUT_S)

    def _on_exit(self, process: SupervisedProcess) -> None:
        is_switch = self._processes.get(process.label) is process
        if is_switch and not self._network.processes.terminating:
            recovery = asyncio.ensure_future(self._recover(process))
            self._recoveries.add(recovery)
            recovery.add_done_callback(self._recoveries.discard)

    async def _recover(self, process: SupervisedProcess) -> None:
        switch = process.label
        died_s = time.monotonic()
        number, most = self._restarts[switch] + 1, self._settings.switch_restarts
        returns = number <= most
        self._restarts[switch] = number
        remedy = f"starting it again ({number} of {most})" if returns else "it stays away"
        self._say(f"switch {process.describe()}; {remedy}")
        await asyncio.to_thread(
            self._controller.lose_switch, switch, process.describe(), returns=returns
        )
        if not returns:
            return
        pause_s = pause_before_restart_s(self._settings.restart_delay_s, number)
        await asyncio.sleep(max(0.0, died_s + pause_s - time.monotonic()))
        self._start(switch)
        try:
            await self._until_it_answers(switch)
        except EmulationError as error:
            self._say(str(error))  # its own end, if it has ended, begins another recovery
            return
        await asyncio.to_thread(self._controller.restore_switch, switch)
        self._say(f"switch {switch} is back after {time.monotonic() - died_s:.1f} s")
