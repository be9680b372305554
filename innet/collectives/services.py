"""What a communicator needs of its process: a worker, or a host in a simulation."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from innet._native import _core
from innet.collectives.work import Completion
from innet.settings import Settings
from innet.telemetry.trace.recorder import Recorder
from innet.worker.background import Background
from innet.worker.membership import Membership


class Services(Protocol):
    """A process of a job, as its communicators see it."""

    @property
    def node(self) -> _core.NodeHandle:
        """The host's node."""

    @property
    def collector(self) -> Completion:
        """Where the ends of the node's operations come from."""

    @property
    def settings(self) -> Settings:
        """Settings of the run."""

    @property
    def segment_bytes(self) -> int:
        """Bytes of a tensor that one packet carries."""

    @property
    def object_segment_bytes(self) -> int:
        """Bytes of a published object that one packet carries."""

    @property
    def object_key(self) -> _core.SigningKey:
        """What this rank's objects are signed with."""

    @property
    def trace(self) -> Recorder | None:
        """Writes down what happens; ``None`` when nobody wants to know."""

    def now_s(self) -> float:
        """Seconds of the monotonic clock by which timeouts count."""

    def background(self, name: str) -> Background:
        """What runs a communicator's actions apart from its program; ``name`` says what for."""

    def ended(self) -> Collection[str]:
        """The hosts whose process has ended as it should."""

    def stopped(self) -> Collection[str]:
        """The hosts whose process neither answers nor sends anything."""

    def leave_group(self, membership: Membership) -> None:
        """This process needs nothing more of the group."""

    def abandon_group(self, membership: Membership, why: str) -> None:
        """End the group here, with an error that says ``why``, and leave it at once."""

    def before_close(self, hook: Callable[[], None]) -> None:
        """Run ``hook`` before the process closes."""

    def no_more_before_close(self, hook: Callable[[], None]) -> None:
        """Take back what :meth:`before_close` was told."""
