"""What is looked for in a run."""

from __future__ import annotations

from innet.observe.doctor.checks.announcements import UnannouncedPrefix
from innet.observe.doctor.checks.clocks import WrongClock
from innet.observe.doctor.checks.congestion import FullQueue
from innet.observe.doctor.checks.cut_links import CutLink
from innet.observe.doctor.checks.losses import LossyLink
from innet.observe.doctor.checks.nodes import DeadNode
from innet.observe.doctor.checks.packets import RefusedPackets
from innet.observe.doctor.checks.processor import StarvedNode
from innet.observe.doctor.checks.routes import MissingRoute
from innet.observe.doctor.checks.slots import NoFreeSlot
from innet.observe.doctor.checks.slow_links import SlowLink
from innet.observe.doctor.checks.stragglers import StragglingRank
from innet.observe.doctor.finding import Check, Finding
from innet.observe.doctor.observation import Observation

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
