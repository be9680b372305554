"""Switches that have no slot left for a reduction."""

from __future__ import annotations

import math
from collections.abc import Iterator

from innet.observe.doctor.finding import Finding
from innet.observe.doctor.observation import NodePair, Observation


class NoFreeSlot:
    """A switch that refused reductions, which the askers then had to make themselves."""

    def findings(self, seen: Observation) -> Iterator[Finding]:
        """One finding for each such switch."""
        for node in seen.nodes():
            refused = node.grown("reducer", "refused_no_slot")
            if node.after["kind"] == "switch" and refused:
                yield Finding(
                    check="no_free_slot",
                    subject=node.name,
                    problem=f"Switch {node.name} has no free slot: within {node.span_s:.1f} s it "
                    f"refused {refused} reductions and took {_taken(node)}, with "
                    f"{node.after['slots']} slots. Those who asked add by themselves, over the "
                    "links that the switch would have spared.",
                    remedy=f"About {_enough(node)} slots would do (`slots` of the switch in the "
                    "topology, or --slots); else let fewer operations or jobs run at once "
                    "(collectives.operations_in_flight).",
                    severity=refused,
                )


def _taken(node: NodePair) -> int:
    return node.grown("reducer", "reductions_started")


def _enough(node: NodePair) -> int:
    """Little's law: as many are in use as arrive in the time that each is held.

    All slots were in use by those that were taken, so all that came would have used that many in
    proportion. The next power of two leaves some room.
    """
    slots = int(node.after["slots"])
    refused = node.grown("reducer", "refused_no_slot")
    came = _taken(node) + refused
    taken = max(1, _taken(node))
    return 1 << math.ceil(math.log2(max(2, slots * came / taken)))
