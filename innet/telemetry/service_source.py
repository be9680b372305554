"""What a process of a run publishes that is no node: status and events."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from innet.telemetry import events
from innet.telemetry.messages import CommandReply, State
from innet.telemetry.topics import SourceTopics


class ServiceSource(ABC):
    """The source of a process that counts nothing and takes no commands.

    Attributes:
        run: the run it belongs to.
        name: as events call it.
        topics: where it publishes.
        since_s: Unix time since which it runs.
        interval_s: it has no counters to publish.
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
        """Refuse: commands are for nodes."""
        message = f"the {self.name} takes no commands; a node does"
        events.report("command_refused", message, reason="misaddressed")
        return CommandReply(
            run=self.run, node=self.name, number=None, accepted=False, message=message
        ).payload()
