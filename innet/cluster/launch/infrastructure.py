"""The controller and switch processes of a run, and its telemetry.

The launcher starts the processes, watches them, and restarts them when they die.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from aiomqtt import MqttError
from aiomqtt.exceptions import MqttConnectError

from innet.cluster.control.__main__ import ControllerConfig
from innet.cluster.control.remote import RemoteController
from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import ProcessSpec, SupervisedProcess
from innet.cluster.emulation.runs import socket_name_of
from innet.cluster.launch.supervision import pause_before_restart_s
from innet.errors import ControlError, EmulationError
from innet.node.controller_client import CONTROLLER_SOCKET_NAME
from innet.node.requests import ConnectToNode
from innet.plans import ProcessorCosts
from innet.security.trust.keys import PrivateKey
from innet.settings import RecoverySettings, TelemetrySettings
from innet.telemetry import events
from innet.telemetry.broker_socket import BROKER_SOCKET_NAME, client_through
from innet.telemetry.broker_url import NONE, BrokerUrl
from innet.telemetry.embedded_broker import BrokerThread
from innet.telemetry.messages import LauncherStatus, MachineStatus, State
from innet.telemetry.mqtt_broker import BrokerLimits
from innet.telemetry.mqtt_session import Listener
from innet.telemetry.publisher import Publisher
from innet.telemetry.source import ServiceSource
from innet.telemetry.topics import (
    LAUNCHER,
    controller_topics,
    launcher_topics,
    node_topics,
)

_LABEL = "controller"
_FIRST_PAUSE_S = 0.1


class ControllerProcess:
    """Runs a controller beside the switches, as an async context manager."""

    def __init__(
        self,
        network: Network,
        settings: RecoverySettings,
        say: Callable[[str], None],
        authority: PrivateKey,
        processor: ProcessorCosts | None = None,
    ) -> None:
        """``say`` prints a line to the user; ``authority`` signs the keys of groups; ``processor``
        has what the work of nodes costs."""
        self._network = network
        self._settings = settings
        self._say = say
        self._processor = processor
        self._process: SupervisedProcess | None = None
        self._recovery: asyncio.Task[None] | None = None
        self.remote = RemoteController(
            network.run_dir / CONTROLLER_SOCKET_NAME, authority.to_der().hex()
        )

    async def __aenter__(self) -> Self:
        """Start it; requests wait until it answers."""
        self._start()
        self._network.processes.on_exit(self._on_exit)
        self._network.on_hurry(self.remote.give_up)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the process; it is not restarted."""
        process, self._process = self._process, None
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        if process is not None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        self.remote.give_up()  # a thread may still wait for an answer

    def _start(self) -> None:
        # In memory: it has keys of jobs, and a disk may be full.
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
        elsewhere = self._network.placed_elsewhere
        agents: dict[str, Path] = {}
        if elsewhere:
            from innet.cluster.machines.commands import agent_socket_name

            run_dir = self._network.run_dir
            agents = {m: run_dir / agent_socket_name(m) for m in set(elsewhere.values())}
        return ControllerConfig(
            run_id=self._network.run_id,
            topology=topology.model_dump_json(),
            socket=self._network.run_dir / CONTROLLER_SOCKET_NAME,
            node_sockets={n: self._network.config(n).control_socket for n in topology.nodes},
            settings=self._network.settings_path,
            record=self.remote.record(),
            processor=self._processor,
            machines=elsewhere,
            agents=agents,
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
        self._network.record_end(process, returns=returns, restarts=min(number, most))
        remedy = f"starting it again ({number} of {most})" if returns else "it is not restarted"
        self._say(f"the {process.describe()}; {remedy}. Running jobs continue.")
        if not returns:
            self.remote.give_up()
            return
        await asyncio.sleep(pause_before_restart_s(_FIRST_PAUSE_S, number))
        self.remote.next_generation()
        try:
            self._start()
        except EmulationError as error:
            self._say(str(error))
            self.remote.give_up()


_START_TIMEOUT_S = 30.0
_PING_TIMEOUT_S = 1.0


class SwitchProcesses:
    """One process for each switch and for the node of each host with several workers.

    An async context manager. A switch that dies is restarted after a pause, as often as the
    settings allow. The launcher reports both to the controller, so that the network avoids the
    switch in between.
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
        """``environment`` is added to the launcher's for a switch; ``say`` prints a line."""
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
        """Start all switches, and wait until they answer."""
        for switch in self._network.topology.switches:
            self._start(switch)
        self._network.processes.on_exit(self._on_exit)
        await asyncio.gather(*(self._until_it_answers(switch) for switch in self._processes))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Restart no switch any more; the processes end with the network."""
        recoveries, self._recoveries = self._recoveries, set()
        for recovery in recoveries:
            recovery.cancel()
        await asyncio.gather(*recoveries, return_exceptions=True)

    def _role(self, switch: str) -> str:
        return self._network.topology.role_of(switch)

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
                        f"{self._role(switch)} {switch} did not start.\n{process.failure_report()}"
                    ) from error
                if time.monotonic() > deadline_s:
                    raise EmulationError(
                        f"{self._role(switch)} {switch} did not answer within "
                        f"{_START_TIMEOUT_S:g} s; is the machine overloaded?"
                    ) from error

    def _ping(self, switch: str) -> None:
        with self._connect(switch) as client:
            client.request("ping", timeout_s=_PING_TIMEOUT_S)

    def _on_exit(self, process: SupervisedProcess) -> None:
        is_switch = self._processes.get(process.label) is process
        if is_switch and not self._network.processes.terminating:
            recovery = asyncio.ensure_future(self._recover(process))
            self._recoveries.add(recovery)
            recovery.add_done_callback(self._recoveries.discard)

    async def _recover(self, process: SupervisedProcess) -> None:
        switch = process.label
        died_s = time.monotonic()
        has_machine = self._network.is_reachable(switch)
        number, most = self._restarts[switch] + has_machine, self._settings.switch_restarts
        returns = number <= most
        self._restarts[switch] = number
        self._network.record_end(process, returns=returns, restarts=number if returns else most)
        remedy = f"starting it again ({number} of {most})" if returns else "it is not restarted"
        if not has_machine:
            remedy = "it is started again when its machine is back"
        self._say(f"{self._role(switch)} {process.describe()}; {remedy}")
        await asyncio.to_thread(
            self._controller.lose_switch, switch, process.describe(), returns=returns
        )
        if not returns:
            return
        pause_s = pause_before_restart_s(self._settings.restart_delay_s, number)
        await asyncio.sleep(max(0.0, died_s + pause_s - time.monotonic()))
        await self._network.until_reachable(switch)
        try:
            self._start(switch)
            await self._until_it_answers(switch)
        except EmulationError as error:
            self._say(str(error))  # its own end, if it has ended, begins another recovery
            return
        await asyncio.to_thread(self._controller.restore_switch, switch)
        self._network.record_return(switch)
        self._say(f"{self._role(switch)} {switch} is back after {time.monotonic() - died_s:.1f} s")


_FORGET_TIMEOUT_S = 2.0
_OTHER_CLIENTS = 64
"""Clients of the embedded broker beside the nodes: launcher, controller, viewers, users' own."""

_log = logging.getLogger(__name__)


class LauncherSource(ServiceSource):
    """The source of the launcher of a run."""

    def __init__(self, network: Network) -> None:
        super().__init__(network.run_id, LAUNCHER, launcher_topics(network.run_id))
        self._network = network

    def status(self, state: State) -> bytes:
        """The payload of its status."""
        topology = self._network.topology
        return LauncherStatus(
            run=self.run,
            state=state,
            topology=topology.name,
            mode=self._network.mode,
            pid=os.getpid(),
            since_s=self.since_s,
            nodes=tuple(topology.nodes),
            machines=tuple(
                MachineStatus(name=name, **machine.model_dump(exclude={"remedy"}))
                for name, machine in self._network.machines.items()
            ),
        ).payload()


class LauncherTelemetry:
    """The broker of a run and the launcher's own publisher, as an async context manager.

    Enter it once the network is up, and leave it when the run's other processes have ended: they
    publish their last status through it.
    """

    def __init__(self, settings: TelemetrySettings, network: Network) -> None:
        self._settings = settings
        self._network = network
        self._url: BrokerUrl | None = None
        self._publisher: Publisher | None = None
        self._broker: BrokerThread | None = None
        self._warned = False
        if settings.broker != NONE:
            self._url = BrokerUrl.of_setting(settings.broker)

    async def __aenter__(self) -> Self:
        if self._settings.broker == NONE:
            return self
        network = self._network
        self._broker = BrokerThread(
            self._settings.broker,
            self._settings.broker_port,
            BrokerLimits(clients=len(network.topology.nodes) + _OTHER_CLIENTS),
            _listeners_of_machines(network),
        )
        broker_socket = network.socket_path(BROKER_SOCKET_NAME)
        url = await asyncio.to_thread(self._broker.start, broker_socket)
        if self._url is not None:
            network.record_broker(str(self._url))
        else:
            network.record_broker(f"unix://{broker_socket}", None if url is None else str(url))
        source = LauncherSource(network)
        self._publisher = Publisher(source, broker_socket, self._url, on_disconnected=self._tell)
        self._publisher.start()
        network.on_machines_changed(self._publisher.publish_status)
        network.processes.on_exit(self._on_exit)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.stop)
            if self._publisher.end_published and self._url is not None:
                await self._forget(self._url)
        if self._broker is not None:
            await asyncio.to_thread(self._broker.stop)

    def _on_exit(self, process: SupervisedProcess) -> None:
        if not self._network.processes.terminating:
            events.report("process_ended", process.describe(), node=process.spec.node or "")

    def _tell(self, error: Exception) -> None:
        """Warn once of a wrong login, so that missing telemetry has an explanation.

        The relay answers for a broker that it cannot reach, and warns of it itself.
        """
        is_refusal = isinstance(error, MqttConnectError) and error.rc != "Server unavailable"
        if is_refusal and not self._warned:
            self._warned = True
            _log.warning(
                "the broker %s refuses the run (%s): check user and password in its URL. The run "
                "goes on without telemetry",
                self._url,
                error,
            )

    async def _forget(self, url: BrokerUrl) -> None:
        """Remove the run's retained messages from the broker: its id is not used again."""
        run_id = self._network.run_id
        sources = [launcher_topics(run_id), controller_topics(run_id)]
        sources += [node_topics(run_id, node) for node in self._network.topology.nodes]
        try:
            async with asyncio.timeout(_FORGET_TIMEOUT_S):
                async with client_through(
                    self._network.run_dir / BROKER_SOCKET_NAME, url
                ) as client:
                    for source in sources:
                        for topic in source.retained:
                            await client.publish(topic, b"", 1, retain=True)
        except (MqttError, OSError) as error:
            _log.info("the broker %s keeps the last status of %s: %s", url, run_id, error)


def _listeners_of_machines(network: Network) -> dict[Path, Listener]:
    """The broker's socket for each other machine, whose clients publish what is of its nodes."""
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for node, machine in network.placed_elsewhere.items():
        nodes[machine].add(node)
    return {
        network.socket_path(socket_name_of(BROKER_SOCKET_NAME, machine)): Listener(
            machine=machine,
            clients=len(of) + _OTHER_CLIENTS,
            topics=frozenset(
                topic for node in of for topic in node_topics(network.run_id, node).published
            ),
        )
        for machine, of in nodes.items()
    }
