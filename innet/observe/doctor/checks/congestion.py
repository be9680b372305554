"""Links with more to carry than they can."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation

_FULL_SHARE = 0.8
_FEW_PACKETS = 100
_DROPPED_SHARE = 0.01


class FullQueue:
    """A queue that is full each time one looks, or that drops."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each queue."""
        for link in seen.links():
            always_full = min(link.depths_bytes) >= _FULL_SHARE * link.link.queue_bytes
            drops = link.dropped_queue > _DROPPED_SHARE * max(link.packets_out, _FEW_PACKETS)
            when = "each time one looks" if always_full else "now and then"
            if always_full or drops:
                yield Finding(
                    check="full_queue",
                    subject=str(link),
                    problem=f"The queue of {link} ({link.link.queue_bytes // 1024} KiB) is full "
                    f"{when}; {link.dropped_queue} packets were dropped within "
                    f"{link.span_s:.1f} s.",
                    remedy="More is sent over it than it carries: choose a plan that loads it less "
                    "(`innet plan` shows the load), a smaller transport.max_window, or a faster "
                    "link. Traffic that is not innet's does not give way.",
                    severity=link.dropped_queue,
                )
