"""Links over which nothing comes."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation


class CutLink:
    """A link of which both ends live, and neither gets anything through to the other."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such link."""
        for link in seen.topology.links:
            near, far = link.nodes
            if seen.is_cut(link):
                yield Finding(
                    check="cut_link",
                    subject=f"{near}--{far}",
                    problem=f"Nothing gets over the link {near}--{far}, although both its ends "
                    "run; the network works round it if there is another path.",
                    remedy=f"Look at the cable and at both ports ({link.a} and {link.b}): "
                    "`ip link` shows whether they are up, and a filter may drop UDP between them.",
                )
