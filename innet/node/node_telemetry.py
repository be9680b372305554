"""Starts a node's publisher, if the run has a broker."""

from __future__ import annotations

from innet._native import _core
from innet.node.node_config import NodeConfig
from innet.node.node_source import NodeSource, ReadStatus
from innet.security.keys import NodeKeys
from innet.settings import Settings
from innet.telemetry.broker_url import NONE, BrokerUrl


class NodeTelemetry:
    """A node's telemetry, which is nothing at all when the run has no broker."""

    def __init__(
        self,
        node: _core.NodeHandle,
        config: NodeConfig,
        settings: Settings,
        keys: NodeKeys,
        read_status: ReadStatus,
    ) -> None:
        """Begin to publish, in the background.

        Args:
            node: the native node.
            config: its configuration.
            settings: of the run, with the broker that the launcher has opened.
            keys: of the node: whose commands it takes.
            read_status: gives what the node answers on its control socket.
        """
        telemetry = settings.telemetry
        self._publisher = None
        if telemetry.broker == NONE:
            return
        from innet.telemetry.door import DOOR_NAME
        from innet.telemetry.publisher import Publisher

        source = NodeSource(node, config, read_status, telemetry.interval_s, keys.operator)
        self._publisher = Publisher(
            source, config.run_dir / DOOR_NAME, BrokerUrl.of_setting(telemetry.broker)
        )
        self._publisher.start()

    def close(self) -> None:
        """Say that the node ends in order. Safe to call twice."""
        if self._publisher is not None:
            self._publisher.stop()
