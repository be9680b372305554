"""Sources of telemetry without counters, and the start of a process's publisher."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from innet.settings import TelemetrySettings
from innet.telemetry import events
from innet.telemetry.broker_url import NONE, BrokerUrl
from innet.telemetry.messages import CommandReply, State
from innet.telemetry.topics import SourceTopics

if TYPE_CHECKING:
    from innet.telemetry.publisher import TelemetrySource


class ServiceSource(ABC):
    """The source of a process without counters and commands.

    Attributes:
        interval_s: 0, as there are no counters.
    """

    interval_s = 0.0

    def __init__(self, run: str, name: str, topics: SourceTopics) -> None:
        self.run = run
        self.name = name
        self.topics = topics
        self.since_s = time.time()

    @abstractmethod
    def status(self, state: State) -> bytes:
        """The payload of its status."""

    def counters(self, events_dropped: int) -> None:
        """Nothing: the process has no counters."""
        return

    def on_command(self, payload: bytes) -> bytes:
        """Refuse: only nodes take commands."""
        message = f"the {self.name} takes no commands; a node does"
        events.report("command_refused", message, reason="misaddressed")
        return CommandReply(
            run=self.run, node=self.name, number=None, accepted=False, message=message
        ).payload()


def start_publishing(
    make_source: Callable[[], TelemetrySource], run_dir: Path, settings: TelemetrySettings
) -> Callable[[], None]:
    """Publish a source in the background; do nothing in a run without a broker.

    Args:
        make_source: called if there is a broker.
        run_dir: has the socket of the broker that the launcher has opened.
        settings: of the run.

    Returns:
        A function that publishes the status of an orderly end and stops. Safe to call twice.
    """
    if settings.broker == NONE:
        return lambda: None
    # An MQTT client is slow to import.
    from innet.telemetry.broker_socket import BROKER_SOCKET_NAME
    from innet.telemetry.publisher import Publisher

    url = BrokerUrl.of_setting(settings.broker)
    publisher = Publisher(make_source(), run_dir / BROKER_SOCKET_NAME, url)
    publisher.start()
    return publisher.stop
