"""Events derived from counters, which are all that the packet path keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from innet.telemetry import events
from innet.telemetry.messages import EventKind, NodeCounters

_REFUSED = (
    "malformed",
    "invalid_signature",
    "unknown_key",
    "key_out_of_scope",
    "key_expired",
)


class CounterEvents:
    """Compares each reading of a node's counters with the one before."""

    def __init__(
        self, neighbours: Collection[str], report: Callable[..., None] = events.report
    ) -> None:
        """``neighbours``: nodes that always run, whose silence is an event."""
        self._neighbours = frozenset(neighbours)
        self._report = report
        self._last: NodeCounters | None = None

    def observe(self, now: NodeCounters, last_unroutable: str) -> None:
        """Report what the counters show since the last reading."""
        last, self._last = self._last, now
        if last is None:
            return
        if (refused := now.reducer.refused_no_slot - last.reducer.refused_no_slot) > 0:
            self._report(
                "slots_exhausted",
                f"{refused} reductions found none of {now.slots} slots free on {now.node}",
                refused=refused,
                slots=now.slots,
            )
        self._compare_links(last, now)
        for reason in _REFUSED:
            packets = getattr(now.tables, reason) - getattr(last.tables, reason)
            if packets > 0:
                self._report(
                    "packets_refused",
                    f"{packets} packets were refused on {now.node}: {reason.replace('_', ' ')}",
                    packets=packets,
                    reason=reason,
                )
        if (unroutable := now.tables.no_route - last.tables.no_route) > 0:
            self._report(
                "route_missing",
                f"{now.node} has no route to {last_unroutable}, and refused {unroutable} Interests",
                prefix=last_unroutable,
                interests=unroutable,
            )

    def _compare_links(self, last: NodeCounters, now: NodeCounters) -> None:
        for before, after in zip(last.links, now.links, strict=True):
            if before.silent == after.silent or after.peer not in self._neighbours:
                continue
            kind: EventKind = "link_silent" if after.silent else "link_restored"
            what = "carries no packets any more" if after.silent else "carries packets again"
            self._report(kind, f"the link {now.node}--{after.peer} {what}", peer=after.peer)
