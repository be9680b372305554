"""Index of the members that reported a block recently: a get asks the nearest one first.

Members ask each other for summaries of their memory (Fan et al., "Summary cache: a scalable
wide-area web cache sharing protocol", SIGCOMM 1998): sorted hashes of the names of its blocks, of
which only the changes are sent again. A block that was added since the last summary is found
through its homes. A block that was removed since, or a hash collision, costs a round trip.

A block that others have often requested from the member that put it is popular, and summaries say
so: it is then requested from its home, unless another member is nearer. Homes differ from block to
block, so the links of one producer do not carry all of a prompt that many use.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np

from innet.errors import KVError, PlanError
from innet.kv.pool.network import BlockNetwork, Cause
from innet.kv.pool.peers import Members
from innet.kv.pool.requests import summary_action
from innet.kv.pool.summary import NO_VERSION, SUMMARY_S, Numbers, Version, hash_of, read_answer
from innet.kv.pool.waiting import gather, now_s

_MOST_NEIGHBOURS: Final = 32
"""Members whose summaries a node has: the nearest ones."""
_MOST_HOLDERS: Final = 2
"""Members that are asked for a block before its homes."""

_log = logging.getLogger(__name__)


class HolderDirectory:
    """The summaries of other members, nearest first."""

    def __init__(self, network: BlockNetwork, members: Members) -> None:
        """
        Args:
            network: knows the distances of members.
            members: of the pool.
        """
        self._network = network
        self._members = members
        self._versions: dict[str, Version] = {}
        self._groups: list[list[tuple[str, Numbers]]] = []
        """Members at equal distance, the nearest group first."""
        self._looked_s = -math.inf
        self._looking: asyncio.Task[None] | None = None

    def in_order(self, name: str, homes: Sequence[str]) -> list[str]:
        """The members to ask for a block, one after the other.

        At most two members that reported it come first, the nearest of them at the front, and then
        its homes. The homes of a popular block come before holders that are no nearer.

        Refreshes the summaries in the background if they are older than a second.
        """
        if now_s() >= self._looked_s + SUMMARY_S and self._looking is None:
            self._looking = asyncio.ensure_future(self._look())
        holders = [each for each in self._holders(hash_of(name)) if self._members.answers(each[0])]
        nearer = [member for member, _ in holders[:_MOST_HOLDERS]]
        others: list[str] = []
        if homes and any(popular for _, popular in holders):
            distance = min(map(self._distance, homes))
            others = [each for each in nearer if self._distance(each) >= distance]
        return list(dict.fromkeys((*(m for m in nearer if m not in others), *homes, *others)))

    def close(self) -> None:
        """Stop refreshing the summaries."""
        if self._looking is not None:
            self._looking.cancel()

    def _holders(self, hashed: int) -> Iterator[tuple[str, bool]]:
        """Members that had a block, and whether it was popular there."""
        wanted = np.uint32(hashed << 1)
        for group in self._groups:
            # Members at equal distance share the requests: each is the first for its part.
            first = hashed % len(group)
            for member, summary in group[first:] + group[:first]:
                place = int(summary.searchsorted(wanted))
                if place < len(summary) and summary[place] >> 1 == hashed:
                    yield member, bool(summary[place] & 1)

    async def _look(self) -> None:
        try:
            own = self._network.node
            distances = {
                member: self._distance(member)
                for member in self._network.members()
                if member != own
            }
            nearest = sorted(distances, key=lambda member: (distances[member], member))
            asked = nearest[:_MOST_NEIGHBOURS]
            self._versions = {m: self._versions.get(m, NO_VERSION) for m in asked}
            answers = await gather([self._ask(member) for member in asked])
            known = [each for each in zip(asked, answers, strict=True) if each[1] is not None]
            by_distance = groupby(known, key=lambda each: distances[each[0]])
            self._groups = [
                [(member, hashes) for member, hashes in group if hashes is not None]
                for _, group in by_distance
            ]
        except KVError as error:  # the network is closed
            _log.debug("no summaries: %s", error)
        finally:
            self._looked_s, self._looking = now_s(), None

    async def _ask(self, member: str) -> Numbers | None:
        """A member's summary; ``None``: it sent no valid answer."""
        known = self._versions[member]
        # Not recorded as a failure: a large summary may be late where blocks are not.
        answer = await self._network.request(member, summary_action(known.number), SUMMARY_S)
        if isinstance(answer, Cause):
            return None
        try:
            self._versions[member] = read_answer(answer.contents, known)
        except KVError as error:
            _log.debug("no summary of %s: %s", member, error)
            self._versions[member] = NO_VERSION
            return None
        return self._versions[member].numbers

    def _distance(self, member: str) -> float:
        """A member that has left, or that joined after this node read the topology, is farthest."""
        try:
            return self._network.distance(member)
        except PlanError:
            return math.inf
