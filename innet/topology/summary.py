"""Short descriptions of a topology and its links, shared by text and picture."""

from __future__ import annotations

from collections import Counter

from innet.quantities import counted, format_duration, format_probability, format_rate
from innet.topology.model import Link, Topology
from innet.topology.settings import UNLIMITED


def counts(topology: Topology) -> str:
    """``8 hosts, 1 switch, 8 links``."""
    return ", ".join(
        (
            counted(len(topology.hosts), "host"),
            counted(len(topology.switches), "switch", "switches"),
            counted(len(topology.links), "link"),
        )
    )


def rate_text(link: Link) -> str:
    """``200mbit`` or ``unlimited``."""
    return UNLIMITED if link.rate_bps is None else format_rate(link.rate_bps)


def link_label(link: Link) -> str:
    """What there is of limits and impairments: ``50mbit 2.8ms 1% loss``, or ``unlimited``."""
    limits_delay_only = link.rate_bps is None and link.delay_s
    parts = [] if limits_delay_only else [rate_text(link)]
    if link.delay_s:
        parts.append(format_duration(link.delay_s))
    if link.loss:
        parts.append(f"{format_probability(link.loss)} loss")
    parts += impairments(link)
    return " ".join(parts)


def impairments(link: Link) -> list[str]:
    """What the link does to packets beyond delay and loss: ``["1% duplicated"]``."""
    parts = []
    if link.jitter_s:
        parts.append(f"{format_duration(link.jitter_s)} jitter")
    shares = {"reordered": link.reorder, "duplicated": link.duplicate, "corrupted": link.corrupt}
    parts += (f"{format_probability(p)} {verb}" for verb, p in shares.items() if p)
    return parts


def usual_link_label(topology: Topology) -> str | None:
    """The label that most links have, or ``None`` without links."""
    labels = Counter(link_label(link) for link in topology.links)
    return labels.most_common(1)[0][0] if labels else None
