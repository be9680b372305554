"""What a launcher records of the parts of its run, for readers in other processes."""

from __future__ import annotations

from typing import Literal

from innet.validation_messages import StrictModel

MachineState = Literal["starting", "up", "lost"]
"""``starting``: it has not joined yet. ``lost``: it had joined, and does not take part now."""


class RecordedMachine(StrictModel):
    """A machine of a run.

    Attributes:
        nodes: that are placed on it.
        since_s: Unix time at which the state began.
        address: where it joined from, or listens; empty: it has not joined.
        why: why it is lost, as a sentence without a full stop.
        remedy: how it comes back, as a sentence without a full stop.
        ran: of the nodes, those that had a process when it was lost.
    """

    nodes: tuple[str, ...]
    state: MachineState
    since_s: float
    address: str = ""
    why: str = ""
    remedy: str = ""
    ran: tuple[str, ...] = ()


class RecordedEnd(StrictModel):
    """The last unexpected end of a process of a node, or of the controller.

    Attributes:
        why: ``was killed by signal 9 (SIGKILL)``.
        at_s: Unix time.
        returns: the launcher starts it again.
        restarts: how often it did so before, with this time.
        back_s: Unix time at which its successor answered; ``None``: not yet.
    """

    why: str
    at_s: float
    returns: bool = False
    restarts: int = 0
    back_s: float | None = None
