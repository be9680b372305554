"""The checks of ``innet doctor``: each looks for one kind of problem in a run."""

from __future__ import annotations

from innet.observe.doctor.causes import with_causes
from innet.observe.doctor.checks.links import (
    CutLink,
    FullQueue,
    LossyLink,
    RefusedPackets,
    RefusedSends,
    SlowLink,
)
from innet.observe.doctor.checks.nodes import (
    NoFreeSlot,
    StarvedNode,
    StragglingRank,
    WrongClock,
)
from innet.observe.doctor.checks.parts import BadLauncher, BadNode, LostMachine
from innet.observe.doctor.checks.pools import UnwritableDisk
from innet.observe.doctor.checks.routes import MissingRoute, UnannouncedPrefix
from innet.observe.doctor.finding import Check, Finding
from innet.observe.doctor.observation import Observation

CHECKS: tuple[Check, ...] = (
    BadLauncher(),
    LostMachine(),
    BadNode(),
    CutLink(),
    StarvedNode(),
    RefusedSends(),
    MissingRoute(),
    UnannouncedPrefix(),
    SlowLink(),
    FullQueue(),
    LossyLink(),
    StragglingRank(),
    NoFreeSlot(),
    UnwritableDisk(),
    RefusedPackets(),
    WrongClock(),
)
"""The gravest first, and causes before what follows from them."""


def examine(seen: Observation) -> list[Finding]:
    """All findings of a run; empty when it is healthy."""
    found = [finding for check in CHECKS for finding in check.findings(seen)]
    return with_causes(seen, found)


def needs_longer_look(seen: Observation) -> bool:
    """Whether a run was observed too briefly to distinguish losses from packets under way."""
    return LossyLink.is_undecided(seen)
