"""Short descriptions of a topology and its links, shared by text and picture."""

from __future__ import annotations

from collections import Counter

from innet.topology import quantities
from innet.topology.model import Link, Topology
from innet.topology.settings import UNLIMITED


def counts(topology: Topology) -> str:
    """``8 hosts, 1 switch, 8 links``."""
    return ", ".join(
        (
            _counted(len(topology.hosts), "host", "hosts"),
            _counted(len(topology.switches), "switch", "switches"),
            _counted(len(topology.links), "link", "links"),
        )
    )


def rate_text(link: Link) -> str:
    """``200mbit`` or ``unlimited``."""
    return UNLIMITED if link.rate_bps is None else quantities.format_rate(link.rate_bps)


def link_label(link: Link) -> str:
    """Rate, delay and loss as far as there are any: ``50mbit 2.8ms 1% loss``, or ``unlimited``."""
    limits_delay_only = link.rate_bps is None and link.delay_s
    parts = [] if limits_delay_only else [rate_text(link)]
    if link.delay_s:
        parts.append(quantities.format_duration(link.delay_s))
    if link.loss:
        parts.append(f"{quantities.format_probability(link.loss)} loss")
    return " ".join(parts)


def usual_link_label(topology: Topology) -> str | None:
    """The label that most links have, or ``None`` without links."""
    labels = Counter(link_label(link) for link in topology.links)
    return labels.most_common(1)[0][0] if labels else None


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
