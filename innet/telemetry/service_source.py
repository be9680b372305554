"""The telemetry of a process that is not a node: status and events."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from innet.telemetry import events
from innet.telemetry.messages import CommandReply, State
from innet.telemetry.topics import SourceTopics


class ServiceSource(ABC):
    """The source of a process without counters and commands.

    Attributes:
        run: the run it belongs to.
        name: the source of its events.
        topics: the topics that it publishes to.
        since_s: Unix time of its start.
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
        """There are none."""
        return

    def on_command(self, payload: bytes) -> bytes:
        """Refuse: only nodes take commands."""
        message = f"the {self.name} takes no commands; a node does"
        events.report("command_refused", message, reason="misaddressed")
        return CommandReply(
            run=self.run, node=self.name, number=None, accepted=False, message=message
        ).payload()
