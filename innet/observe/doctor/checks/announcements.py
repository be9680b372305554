"""Prefixes that programs serve, and that only their own node knows of."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation


class UnannouncedPrefix:
    """A prefix that a program has registered, and that the other nodes are not told of."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such prefix of each node."""
        for node in seen.nodes():
            for prefix, why in node.after.get("unannounced", {}).items():
                yield Finding(
                    check="unannounced_prefix",
                    subject=node.name,
                    problem=f"A program at {node.name} serves {prefix}, and only programs there "
                    f"find it: {why}.",
                    remedy="Let it register another prefix, which everybody finds, or ask for the "
                    "name at that node.",
                )
