"""The launcher's telemetry: the run's broker, and what only the launcher can publish."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Self

from aiomqtt import MqttError
from aiomqtt.exceptions import MqttConnectError

from innet.cluster.emulation.network import Network
from innet.cluster.emulation.processes import SupervisedProcess
from innet.settings import TelemetrySettings
from innet.telemetry import events
from innet.telemetry.broker_socket import BROKER_SOCKET_NAME, client_through
from innet.telemetry.broker_url import NONE, BrokerUrl
from innet.telemetry.embedded_broker import BrokerThread
from innet.telemetry.messages import LauncherStatus, State
from innet.telemetry.mqtt_broker import BrokerLimits
from innet.telemetry.publisher import Publisher
from innet.telemetry.source import ServiceSource
from innet.telemetry.topics import (
    LAUNCHER,
    controller_topics,
    launcher_topics,
    node_topics,
)

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
        ).payload()


class LauncherTelemetry:
    """The broker of a run and the launcher's own publisher, as an async context manager.

    Enter it once the network is up, and leave it when the run's other processes have ended: they
    publish their last status through it.
    """

    def __init__(self, settings: TelemetrySettings, network: Network) -> None:
        """Nothing happens before the context is entered.

        Raises:
            TelemetryError: the broker's URL is malformed.
        """
        self._settings = settings
        self._network = network
        self._url: BrokerUrl | None = None
        self._publisher: Publisher | None = None
        self._broker: BrokerThread | None = None
        self._warned = False
        if settings.broker != NONE:
            self._url = BrokerUrl.of_setting(settings.broker)
            clients = len(network.topology.nodes) + _OTHER_CLIENTS
            self._broker = BrokerThread(
                settings.broker, settings.broker_port, BrokerLimits(clients=clients)
            )

    async def __aenter__(self) -> Self:
        if self._broker is None:
            return self
        network = self._network
        broker_socket = network.socket_path(BROKER_SOCKET_NAME)
        url = await asyncio.to_thread(self._broker.start, broker_socket)
        if self._url is not None:
            network.record_broker(str(self._url))
        else:
            network.record_broker(f"unix://{broker_socket}", None if url is None else str(url))
        source = LauncherSource(network)
        self._publisher = Publisher(source, broker_socket, self._url, on_disconnected=self._tell)
        self._publisher.start()
        network.processes.on_exit(self._on_exit)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.stop)
            if self._publisher.has_parted and self._url is not None:
                await self._forget(self._url)
        if self._broker is not None:
            await asyncio.to_thread(self._broker.stop)

    def _on_exit(self, process: SupervisedProcess) -> None:
        if not self._network.processes.terminating:
            events.report("process_ended", process.describe(), node=process.spec.node or "")

    def _tell(self, error: Exception) -> None:
        """Warn once of a wrong login, so that missing telemetry has an explanation."""
        if isinstance(error, MqttConnectError) and not self._warned:
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
