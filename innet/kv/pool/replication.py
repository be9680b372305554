"""Copies this node's blocks to their other homes: when a member has gone, and before it leaves.

A copy is a request to the other home to keep the block, which it fetches from here unless it has
it. Copies are paced, so that they take a bounded part of the links.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.home import Home
from innet.kv.pool.peers import placement_among
from innet.kv.pool.pool_node import PoolNode
from innet.kv.pool.tiers import Entry
from innet.kv.pool.waiting import gather, now_s

LOOK_S: Final = 0.5
"""Polling interval of the members: the network does not report changes."""
_MOST_PASSES: Final = 3
"""Passes over the blocks of a node that leaves, because others put new ones meanwhile."""

_log = logging.getLogger(__name__)


@dataclass
class Change:
    """The change of the members since all blocks were at their homes.

    Attributes:
        before: the members then, with the bytes they offer.
        gone: members of ``before`` that have left or died since; they may have rejoined, empty.
        after: the members now.
        since_s: of the last change.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    since_s: float
    gone: set[str] = field(default_factory=set)

    @property
    def is_none(self) -> bool:
        """Whether no block has other homes than before."""
        return not self.gone and self.before == self.after

    def look(self, members: Mapping[str, int], at_s: float) -> None:
        """Record the members at a time."""
        if members != self.after:
            self.gone |= self.after.keys() - members.keys()
            self.after, self.since_s = dict(members), at_s


@dataclass(frozen=True)
class _Copies:
    """A block that others are to keep."""

    key: BlockKey
    depth: int
    size_bytes: int
    members: tuple[str, ...]


class Replicator:
    """Copies of the blocks that this node is home to."""

    def __init__(self, node: PoolNode, home: Home) -> None:
        """
        Args:
            node: this node's part of the pool.
            home: this node as a home of blocks.
        """
        self._node = node
        self._home = home
        self._paced_until_s = 0.0

    @property
    def _own(self) -> str:
        """This node; a standing pool that is started again may have given another one."""
        return self._node.network.node

    async def run(self) -> None:
        """Copy blocks again that have lost a home, until cancelled.

        A change of the members counts once it has lasted for ``leave_out_s``: a member that is
        restarted brings its disk's blocks back. Of the homes that still have a block, the first one
        copies it to the homes that lack it.
        """
        members = dict(self._node.network.members())
        change = Change(members, members, now_s())
        while True:
            await asyncio.sleep(LOOK_S)
            change.look(self._node.network.members(), now_s())
            settled = now_s() >= change.since_s + self._node.settings.leave_out_s
            if settled and not change.is_none and await self._restore(change):
                change = Change(change.after, change.after, now_s())

    async def hand_over(self) -> int:
        """Copy all blocks that this node is home to or has put, to their homes without it.

        Returns:
            How many copies others keep.
        """
        known: set[str] = set()
        copied = 0
        for _ in range(_MOST_PASSES):
            members = self._node.network.members()
            left = {member: size for member, size in members.items() if member != self._own}
            names = [name for name in self._names() if name not in known]
            if not left or not names:
                break
            known.update(names)
            copied += await self._copy_all(
                self._copies(names, Change(members, left, now_s()), leaves=True)
            )
        return copied

    async def _restore(self, change: Change) -> bool:
        """Make the copies that a change requires; false: the members have changed again."""
        planned = self._copies(self._names(), change)
        for some in _batches(planned, self._node.settings.window):
            await self._copy_all(some)
            change.look(self._node.network.members(), now_s())
            if now_s() < change.since_s + self._node.settings.leave_out_s:
                return False
        return True

    def _names(self) -> list[str]:
        """The blocks that this node keeps for others."""
        self._home.drain_kept()
        tiers = self._node.store.tiers
        on_disk = () if tiers.disk is None else tiers.disk.names()
        return list(dict.fromkeys((*tiers.memory.names(), *on_disk)))

    def _copies(
        self, names: Sequence[str], change: Change, *, leaves: bool = False
    ) -> Iterator[_Copies]:
        """The copies that this node makes: those of blocks that it is the first to still have.

        ``leaves``: it makes all copies of its blocks.
        """
        replicas = self._node.members.replicas
        before, after = (placement_among(m, replicas) for m in (change.before, change.after))
        if before is None or after is None:
            return
        tiers = self._node.store.tiers
        for name in names:
            try:
                key = BlockKey.parse(name)
            except KVError:
                continue
            homes = before.homes(key.block_hash)
            have = [h for h in homes if h not in change.gone and h in change.before]
            have = [h for h in have if leaves or h in change.after]
            found = tiers.entry(name)
            if leaves and found is not None and self._is_producer(found):
                have = [self._own]  # its homes only know its producer
            if self._own not in (have if leaves else have[:1]):
                continue
            missing = tuple(h for h in after.homes(key.block_hash) if h not in have)
            if missing and found is not None:
                yield _Copies(key, found.depth, found.size, missing)

    def _is_producer(self, entry: Entry[Any]) -> bool:
        """Whether this node has put a block that stays where it was put."""
        return self._node.directory is not None and not entry.is_copy

    async def _copy_all(self, blocks: Iterable[_Copies]) -> int:
        """Make copies, as many at once as the window has; the number that succeeded."""
        copied = 0
        for some in _batches(blocks, self._node.settings.window):
            requests = [(member, block) for block in some for member in block.members]
            await self._pace(sum(block.size_bytes for _, block in requests))
            kept = await gather([self._copy(member, block) for member, block in requests])
            copied += sum(kept)
        self._node.counts.replicated += copied
        return copied

    async def _copy(self, member: str, block: _Copies) -> bool:
        depth = self._node.members.prompt_depth(block.depth)
        try:
            [end] = await self._node.peers.keep(member, [(block.key, depth)], self._own)
        except KVError as error:
            _log.info("%s is not copied to %s: %s", block.key.name, member, error)
            return False
        return end is None

    async def _pace(self, size_bytes: int) -> None:
        """Wait until that many bytes may be sent."""
        at_s = max(now_s(), self._paced_until_s)
        self._paced_until_s = at_s + size_bytes / self._node.settings.copy_bytes_per_s
        await asyncio.sleep(at_s - now_s())


def _batches(blocks: Iterable[_Copies], size: int) -> Iterator[list[_Copies]]:
    left = iter(blocks)
    while some := list(islice(left, size)):
        yield some
