"""The controller's process: started, watched, and started again when it dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Self

from innet.cluster.control.__main__ import ControllerConfig
from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.cluster.launch.restart_pause import pause_before_restart_s
from innet.node.control.controller_socket import CONTROLLER_SOCKET_NAME
from innet.security.trust.keys import PrivateKey
from innet.settings import SETTINGS_NAME, RecoverySettings
from innet.topology import dump_yaml

_LABEL = "controller"
_FIRST_PAUSE_S = 0.1


class ControllerProcess:
    """Runs a controller beside the switches, as an async context manager.

    Attributes:
        remote: to tell it what happens.
    """

    def __init__(
        self,
        network: Network,
        settings: RecoverySettings,
        say: Callable[[str], None],
        authority: PrivateKey,
    ) -> None:
        """``say`` tells the user; ``authority`` signs the keys of groups."""
        self._network = network
        self._settings = settings
        self._say = say
        self._process: SupervisedProcess | None = None
        self._recovery: asyncio.Task[None] | None = None
        self.remote = RemoteController(
            network.run_dir / CONTROLLER_SOCKET_NAME, authority.to_der().hex()
        )

    async def __aenter__(self) -> Self:
        """Start it; it answers some time later, and whoever asks waits for that."""
        self._start()
        self._network.processes.on_exit(self._on_exit)
        self._network.on_hurry(self.remote.give_up)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Start none again any more; the process ends with the network."""
        process, self._process = self._process, None
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        if process is not None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        self.remote.give_up()  # a thread may still wait for an answer

    def _start(self) -> None:
        # In memory: there are keys of jobs in it, and a disk may be full.
        with os.fdopen(os.memfd_create("innet-controller"), "w") as file:
            file.write(self._config().model_dump_json())
            file.flush()
            fd = file.fileno()
            argv = (sys.executable, "-P", "-m", "innet.cluster.control", f"/proc/self/fd/{fd}")
            self._process = self._network.processes.spawn(
                ProcessSpec(label=_LABEL, argv=argv, pass_fds=(fd,))
            )

    def _config(self) -> ControllerConfig:
        topology = self._network.topology
        return ControllerConfig(
            run_id=self._network.run_id,
            topology=dump_yaml(topology),
            socket=self._network.run_dir / CONTROLLER_SOCKET_NAME,
            node_sockets={n: self._network.config(n).control_socket for n in topology.nodes},
            settings=self._network.run_dir / SETTINGS_NAME,
            record=self.remote.record(),
        )

    def _on_exit(self, process: SupervisedProcess) -> None:
        if process is not self._process:
            return
        if self._network.processes.terminating:
            self.remote.give_up()
        else:
            self._recovery = asyncio.ensure_future(self._recover(process))

    async def _recover(self, process: SupervisedProcess) -> None:
        number, most = self.remote.generation + 1, self._settings.controller_restarts
        returns = number <= most
        remedy = f"starting it again ({number} of {most})" if returns else "it stays away"
        self._say(f"the {process.describe()}; {remedy}. What runs goes on.")
        if not returns:
            return
        await asyncio.sleep(pause_before_restart_s(_FIRST_PAUSE_S, number))
        self.remote.next_generation()
        self._start()
