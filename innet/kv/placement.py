"""Which nodes are a block's homes: consistent hashing, weights by capacity, replicas.

Rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998)
with weights as in Schindelhauer and Schomaker, "Weighted distributed hash tables" (SPAA 2005):
every node draws a number from the block's hash, and the highest are the homes. The draw of one
node says nothing about another's, so whoever comes or goes moves only blocks of its own, whatever
the weights; points on a circle would need many of them to be as even.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Mapping

from innet.errors import KVError

_DRAW_BYTES = 8


class Placement:
    """The homes of blocks.

    Example:
        >>> placement = Placement({"h0": 1, "h1": 1, "h2": 2}, replicas=2)
        >>> len(set(placement.homes(bytes(32))))
        2

    Attributes:
        replicas: homes of a block.
    """

    def __init__(self, weights: Mapping[str, float], *, replicas: int = 1) -> None:
        """
        Args:
            weights: of the nodes that offer memory, in any unit: each is home to its share of the
                blocks.
            replicas: homes of a block, on as many different nodes.

        Raises:
            KVError: a weight is not above 0, or there are fewer nodes than replicas.
        """
        for node, weight in weights.items():
            if not 0 < weight < math.inf:
                raise KVError(f"the weight of {node} is {weight}; it must be above 0")
        if not 1 <= replicas <= len(weights):
            raise KVError(
                f"{replicas} replicas of a block need as many nodes with memory, and at least one; "
                f"there are {len(weights)}"
            )
        self.replicas = replicas
        self._nodes = [(node, node.encode(), weight) for node, weight in weights.items()]

    def homes(self, block_hash: bytes) -> tuple[str, ...]:
        """The nodes that keep the block, the one to ask first before the others."""
        scores = ((_score(block_hash, text, weight), node) for node, text, weight in self._nodes)
        return tuple(node for _, node in heapq.nlargest(self.replicas, scores))


def _score(block_hash: bytes, node: bytes, weight: float) -> float:
    digest = hashlib.blake2b(block_hash + node, digest_size=_DRAW_BYTES).digest()
    drawn = (int.from_bytes(digest, "big") + 0.5) / (1 << 8 * _DRAW_BYTES)  # within (0, 1)
    return weight / -math.log(drawn) if drawn < 1 else math.inf
