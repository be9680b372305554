"""Links that are slower than the topology says."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation
from innet.quantities import format_rate

_SLOW_SHARE = 0.7
"""Of the topology's rate; a link with a queue carries 95 % and more."""
_WAITING_BYTES = 10_000
"""A queue of one packet may just be passing."""


class SlowLink:
    """A link that carries far less than it should although packets wait for it."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each slow direction."""
        for link in seen.links():
            rate_bps = link.link.rate_bps
            if rate_bps is None or min(link.depths_bytes) < _WAITING_BYTES:
                continue
            if link.sent_bps < _SLOW_SHARE * rate_bps:
                yield Finding(
                    check="slow_link",
                    subject=str(link),
                    problem=f"The link {link} is slow: it carries {_rate(link.sent_bps)} with "
                    f"{min(link.depths_bytes) // 1000} kB waiting for it; by the topology it is "
                    f"one of {_rate(rate_bps)}.",
                    remedy="Measure it (iperf3); look for another rate limit on it (tc qdisc), or "
                    "for a machine that has no time to send. Plans that avoid it: `innet plan`.",
                    severity=1 - link.sent_bps / rate_bps,
                )


def _rate(rate_bps: float) -> str:
    """Rounded to three digits."""
    magnitude = 10 ** max(0, len(str(int(rate_bps))) - 3)
    return format_rate(int(rate_bps) // magnitude * magnitude)
