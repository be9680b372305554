"""What is looked for in a run."""

from __future__ import annotations

from innet.doctor.checks.announcements import UnannouncedPrefix
from innet.doctor.checks.clocks import WrongClock
from innet.doctor.checks.congestion import FullQueue
from innet.doctor.checks.cut_links import CutLink
from innet.doctor.checks.losses import LossyLink
from innet.doctor.checks.nodes import DeadNode
from innet.doctor.checks.packets import RefusedPackets
from innet.doctor.checks.processor import StarvedNode
from innet.doctor.checks.routes import MissingRoute
from innet.doctor.checks.slots import NoFreeSlot
from innet.doctor.checks.slow_links import SlowLink
from innet.doctor.checks.stragglers import StragglingRank
from innet.doctor.finding import Check, Finding
from innet.doctor.observation import Observation

CHECKS: tuple[Check, ...] = (
    DeadNode(),
    MissingRoute(),
    UnannouncedPrefix(),
    SlowLink(),
    FullQueue(),
    CutLink(),
    LossyLink(),
    StragglingRank(),
    NoFreeSlot(),
    RefusedPackets(),
    StarvedNode(),
    WrongClock(),
)
"""The gravest first: what is dead explains much of the rest."""


def examine(seen: Observation) -> list[Finding]:
    """All that is wrong with a run; empty when it is healthy."""
    return [finding for check in CHECKS for finding in check.findings(seen)]
