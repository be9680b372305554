"""What shall happen to the nodes and links of a network, and when.

Written in topology and workload files (:mod:`innet.topology.event_document`), applied by
simulations (:mod:`innet.lab.simulation.event_schedule`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

EventKind = Literal["link-down", "link-change", "crash", "pause", "clock-jump", "straggle"]
Anything = Literal["any host", "any switch", "any node", "any link"]

Target = tuple[str, ...]
"""A node, or the two nodes of a link."""


@dataclass(frozen=True)
class Event:
    """Something that happens once, again and again, or at random.

    Attributes:
        kind: what happens.
        targets: where; of several, one is drawn each time. All of a kind: :data:`Anything`.
        at_s: when, at first. Random events begin from here on.
        every_s: again after so long, and so on.
        rate_per_s: at random, so often in the mean: the times between are exponential.
        until_s: nothing begins from here on.
        lasts_s: after which it is undone; ``None`` for never. A crashed node starts again empty.
        link_settings: ``link-change``: fields of a :class:`~innet.topology.Link`.
        jump_s: ``clock-jump``: by how much.
        factor: ``straggle``: computing takes so many times as long.
    """

    kind: EventKind
    targets: tuple[Target, ...] | Anything
    at_s: float = 0.0
    every_s: float | None = None
    rate_per_s: float | None = None
    until_s: float | None = None
    lasts_s: float | None = None
    link_settings: Mapping[str, Any] = field(default_factory=dict)
    jump_s: float = 0.0
    factor: float = 1.0
