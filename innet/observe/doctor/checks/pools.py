"""Checks of pools of KV blocks: disks that take no blocks."""

from __future__ import annotations

from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import Observation


class UnwritableDisk:
    """A tier of a pool's store that cannot write blocks."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such tier of each node."""
        for node in seen.nodes():
            for pool in node.after["pools"]:
                for name, tier in pool["tiers"].items():
                    if tier["fault"]:
                        yield Finding(
                            check="unwritable_disk",
                            subject=node.name,
                            problem=f"The pool of {pool['tenant']} on {node.name} keeps no new "
                            f"blocks in its {name.replace('_', ' ')}: {tier['fault']}. "
                            f"{tier['failed']} blocks were lost there.",
                            remedy="Free space where it says, repair the file system, or give the "
                            "pool a smaller disk or another folder. The member tries again by "
                            "itself.",
                            severity=tier["failed"],
                        )
