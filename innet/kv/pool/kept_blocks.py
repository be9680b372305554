"""The blocks that a home's network keeps for others by itself."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from innet.errors import KVError
from innet.kv.pool.answers import DONE
from innet.kv.pool.members import Members
from innet.kv.pool.network import BlockNetwork, Keeping, KeptBlock
from innet.kv.pool.offered_store import OfferedStore
from innet.kv.pool.settings import PoolSettings
from innet.kv.pool.statistics import PoolStatistics

PART_FOR_FETCHING: Final = 0.9
"""Of the time in which a put is to end: the rest is for the answer. When one block of a request is
late, the others' answer must not be."""

_PART_UNHEARD: Final = 1 / 16
_MOST_UNHEARD_BYTES: Final = 64 << 20
"""So many bytes of blocks, at most that part of what is offered in memory, may be kept before this
home has heard of them: beside those that are in its memory already."""

_log = logging.getLogger(__name__)


class KeptBlocks:
    """Enters into the home's books what its network has kept, and lets it keep more.

    The network keeps no block that the home would have refused: it has room for no more bytes than
    can come at once without one of them having to go.
    """

    def __init__(
        self,
        network: BlockNetwork,
        store: OfferedStore,
        members: Members,
        settings: PoolSettings,
        counts: PoolStatistics,
    ) -> None:
        """
        Args:
            network: of this node.
            store: where the blocks go.
            members: of the pool.
            settings: of the pool.
            counts: where to count what is kept.
        """
        self._network = network
        self._store = store
        self._members = members
        self._settings = settings
        self._counts = counts
        self._room_bytes = 0
        self._heard_blocks = 0
        self._heard_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Let the network keep blocks from now on, if this home offers memory."""
        if self._store.tiers.memory.capacity_bytes == 0:
            return
        self._room_bytes = self._room_for_more()
        self._network.keep_by_itself(
            Keeping(
                DONE.encoded().tobytes(),
                self._settings.window,
                PART_FOR_FETCHING * self._settings.put_timeout_s,
                self._settings.answer_s,
                self._room_bytes,
            )
        )

    def add(self, kept: KeptBlock) -> None:
        """Enter a block that the network keeps."""
        self._heard_blocks += 1
        self._heard_bytes += kept.block.contents.nbytes
        depth = self._members.own_depth(kept.depth)
        there_is_room = None
        if kept.is_served:
            there_is_room = self._store.adopt(kept.name, kept.block, depth)
        if there_is_room is None:  # something else was published under its name
            task = asyncio.ensure_future(self._keep(kept, depth))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if there_is_room:
            self._counts.kept.update(kept.askers)

    def settle(self) -> None:
        """Tell the network what was entered, and how much more it may keep."""
        room_bytes = self._room_for_more()
        if not self._heard_blocks and room_bytes == self._room_bytes:
            return
        self._network.hear_of_kept(self._heard_blocks, self._heard_bytes, room_bytes)
        self._room_bytes = room_bytes
        self._heard_blocks = self._heard_bytes = 0

    def close(self) -> None:
        """Let the network keep nothing any more."""
        for task in self._tasks:
            task.cancel()
        self._network.keep_nothing_by_itself()

    def _room_for_more(self) -> int:
        memory = self._store.tiers.memory
        most_bytes = min(int(_PART_UNHEARD * memory.capacity_bytes), _MOST_UNHEARD_BYTES)
        return min(most_bytes, memory.room_for_new_bytes)

    async def _keep(self, kept: KeptBlock, depth: int) -> None:
        try:
            if await self._store.keep(kept.name, kept.block, depth):
                self._counts.kept.update(kept.askers)
        except KVError as error:
            _log.info("%s is not kept: %s", kept.name, error)
