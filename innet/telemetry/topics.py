"""The topic tree: the topics that each part of a run publishes and subscribes to.

::

    innet/<run>/launcher/status          retained; Last Will
    innet/<run>/launcher/event
    innet/<run>/controller/status        retained; Last Will
    innet/<run>/controller/event
    innet/<run>/nodes/<node>/status      retained; Last Will
    innet/<run>/nodes/<node>/counters    retained
    innet/<run>/nodes/<node>/event
    innet/<run>/nodes/<node>/command     to the node, signed
    innet/<run>/nodes/<node>/reply       outcome of a command
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ROOT = "innet"
LAUNCHER = "launcher"
CONTROLLER = "controller"

Leaf = Literal["status", "counters", "event", "command", "reply"]


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """The topics of one source: a node, the launcher or the controller.

    >>> node_topics("lab", "s0").status
    'innet/lab/nodes/s0/status'
    """

    base: str

    @property
    def status(self) -> str:
        """Whether the source is alive; retained."""
        return f"{self.base}/status"

    @property
    def counters(self) -> str:
        """The latest counters; retained."""
        return f"{self.base}/counters"

    @property
    def event(self) -> str:
        """Events, when they happen."""
        return f"{self.base}/event"

    @property
    def command(self) -> str:
        """Signed commands to the source."""
        return f"{self.base}/command"

    @property
    def reply(self) -> str:
        """The outcome of each command."""
        return f"{self.base}/reply"

    @property
    def retained(self) -> tuple[str, ...]:
        """The topics of which a broker keeps the last message."""
        return (self.status, self.counters)

    @property
    def published(self) -> tuple[str, ...]:
        """The topics that the source publishes to."""
        return (*self.retained, self.event, self.reply)


def node_topics(run_id: str, node: str) -> SourceTopics:
    """The topics of a node of a run."""
    return SourceTopics(f"{ROOT}/{run_id}/nodes/{node}")


def launcher_topics(run_id: str) -> SourceTopics:
    """The topics of a run's launcher."""
    return SourceTopics(f"{ROOT}/{run_id}/{LAUNCHER}")


def controller_topics(run_id: str) -> SourceTopics:
    """The topics of a run's controller."""
    return SourceTopics(f"{ROOT}/{run_id}/{CONTROLLER}")


def all_of_run(run_id: str) -> str:
    """A filter for everything that a run publishes."""
    return f"{ROOT}/{run_id}/#"


def without_counters(run_id: str) -> tuple[str, ...]:
    """Filters for what a run publishes when it happens, and not at intervals."""
    sources = (f"{ROOT}/{run_id}/+", f"{ROOT}/{run_id}/nodes/+")
    return tuple(f"{source}/{leaf}" for source in sources for leaf in ("status", "event"))


def is_of_run(topic: str, run_id: str) -> bool:
    """Whether a topic is below that run."""
    return topic.startswith(f"{ROOT}/{run_id}/")


def source_of(topic: str) -> tuple[str, str] | None:
    """The source (a node, ``launcher``, ``controller``) and leaf of a topic; ``None``: foreign.

    >>> source_of("innet/lab/nodes/s0/event")
    ('s0', 'event')
    """
    match topic.split("/"):
        case [_, _, "nodes", node, leaf]:
            return node, leaf
        case [_, _, source, leaf] if source in (LAUNCHER, CONTROLLER):
            return source, leaf
    return None
