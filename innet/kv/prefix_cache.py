"""Keys and values of prompts' prefixes, in a pool of blocks."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from innet.errors import KVError
from innet.kv.hash_chain import TokenIds, chain, count_of, root_hash
from innet.kv.layout import BlockLayout, KVArray, KVSource, LayerRange
from innet.kv.names import BlockKey
from innet.kv.pool import BlockPool, PoolStatistics
from innet.kv.pool.announcements import DEFAULT_LEASE_S
from innet.kv.pool.inventory import BlockFilter
from innet.kv.pool.network import Contents
from innet.kv.pool.waiting import (
    Deadline,
    Progress,
    cancel_all,
    count_done_in_order,
    gather,
    now_s,
)
from innet.kv.prefill import Arrivals, LoadSpeed, LoadTime, PrefillCost, blocks_worth_loading

if TYPE_CHECKING:
    from innet.kv.events.source import BlockEvents

_AWAITED: Final = 8
"""Announced blocks that are awaited at once: the timeout of each begins then."""


@dataclass
class KVStatistics:
    """Counters of one process's lookups, loads and puts of prompts.

    Attributes:
        lookups: prompts that were looked up.
        tokens_asked: tokens in their full blocks.
        tokens_found: tokens that were loaded for them.
        tokens_put: tokens in blocks that were put.
        load_time: the cost of loading over the network, if measured recently.
        blocks: counters of the blocks, by place and cause.
    """

    lookups: int = 0
    tokens_asked: int = 0
    tokens_found: int = 0
    tokens_put: int = 0
    load_time: LoadTime | None = None
    blocks: PoolStatistics = field(default_factory=PoolStatistics)


@dataclass(frozen=True)
class LoadedLayers:
    """Keys and values of a prefix in some layers.

    Attributes:
        layers: which layers.
        tokens: length of the prefix; the same for all layers.
        kv: keys and values of these layers, ``(layers, 2, tokens, kv_heads, head_dim)``.
    """

    layers: LayerRange
    tokens: int
    kv: KVArray


@dataclass(frozen=True)
class _Piece:
    """A block of one range of layers."""

    start: int
    layers: LayerRange
    key: BlockKey


class PrefixCache:
    """Keys and values of one model's prompts, by their tokens.

    Runs in the event loop of its block pool. A block that cannot be fetched, for whatever reason,
    counts as not found: only wrong use raises errors.
    """

    def __init__(
        self,
        blocks: BlockPool,
        *,
        tenant: str,
        model_digest: str,
        layout: BlockLayout,
        salt: str = "",
        events: BlockEvents | None = None,
    ) -> None:
        """
        Args:
            blocks: the pool that keeps the blocks.
            tenant: the component that stands for the tenant in names.
            model_digest: see :class:`innet.kv.model.ModelIdentity`.
            layout: of the model's blocks.
            salt: separates prompts from those with another salt.
            events: of this process's blocks, which contain the tokens of prompts.
        """
        self._blocks = blocks
        self._events = events
        self._layout = layout
        self._salt = salt
        self._families = layout.families(tenant, model_digest)
        self._root = root_hash()
        self._speed = LoadSpeed()
        self._counts = KVStatistics()

    async def announce(
        self, tokens: TokenIds, request: str, lease_s: float = DEFAULT_LEASE_S
    ) -> int:
        """Announce a prompt's full blocks that this process will put, so that others wait for them.

        Args:
            tokens: of the prompt.
            request: a name that others give to :meth:`load_prefix`; it is used once.
            lease_s: blocks that were not put by then are withdrawn.

        Returns:
            How many homes have the announcement.
        """
        keys = [piece.key for piece in self._pieces(tokens)]
        return await self._blocks.announcements.announce(request, keys, lease_s=lease_s)

    async def withdraw(self, request: str) -> None:
        """End the waits for announced blocks that were not put."""
        self._blocks.announcements.withdraw(request)

    async def put(
        self,
        tokens: TokenIds,
        kv: KVSource | bytes | bytearray | memoryview,
        *,
        first_token: int = 0,
        progress: Progress | None = None,
    ) -> int:
        """Publish the full blocks of a prompt.

        Args:
            tokens: all tokens of the prompt.
            kv: keys and values of the tokens from ``first_token`` on: arrays, or the bytes of the
                array ``(layers, 2, tokens, kv_heads, head_dim)``.
            first_token: earlier tokens are assumed to be in the pool already.
            progress: see :data:`Progress`.

        Returns:
            Tokens of the prefix, from ``first_token`` on without a gap, that some home has now.

        Raises:
            KVError: ``kv`` does not fit the model or the tokens, or the pool is closed.
        """
        count = count_of(tokens)
        if not 0 <= first_token <= count:
            raise KVError(
                f"invalid first_token {first_token}: the prompt has {count} tokens, so it is "
                f"from 0 to {count}"
            )
        kv = self._layout.arrays_of(kv, count - first_token)
        self._layout.require_fitting(kv, count - first_token)
        size = self._layout.block_tokens
        first_block = math.ceil(first_token / size)
        pieces = self._pieces(tokens, first_block)
        kept = [False] * len(pieces)
        block_bytes = self._layout.size_bytes(self._layout.ranges[0])
        # Recently used memory: touching new pages takes longer than copying a block.
        spare: list[npt.NDArray[np.uint8]] = []

        async def step(numbers: range) -> int:
            some = pieces[numbers.start : numbers.stop]
            memory = [spare.pop() if spare else np.empty(block_bytes, np.uint8) for _ in some]
            blocks = [
                (piece.key, self._layout.cut(kv, piece.start - first_token, piece.layers, into))
                for piece, into in zip(some, memory, strict=True)
            ]
            depths = [piece.start // size for piece in some]
            homes = await self._blocks.put_many(blocks, depths=depths)
            spare.extend(memory)
            kept[numbers.start : numbers.stop] = [count > 0 for count in homes]
            return len(numbers)

        batches = self._blocks.batches(block_bytes)
        await count_done_in_order(len(pieces), step, *batches, progress)
        self._counts.tokens_put += len(pieces) // len(self._families) * size
        in_order = next((i for i, there in enumerate(kept) if not there), len(kept))
        return (first_block + in_order // len(self._families)) * size if in_order else first_token

    async def put_many(self, prompts: Sequence[tuple[TokenIds, KVSource]]) -> list[int]:
        """:meth:`put` for several prompts at once."""
        return await gather([self.put(tokens, kv) for tokens, kv in prompts])

    async def get_longest_prefix(
        self,
        tokens: TokenIds,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
        request: str = "",
    ) -> tuple[int, KVArray]:
        """Load the longest prefix that the pool has; see :meth:`load_prefix` for the arguments.

        Returns:
            How many tokens it has, and their keys and values, ``(layers, 2, tokens, kv_heads,
            head_dim)``.

        Raises:
            KVError: the pool is closed.
        """
        size = self._layout.block_tokens
        kv = self._layout.empty(count_of(tokens) // size * size)
        found = await self.load_prefix(
            tokens, kv, deadline_s=deadline_s, cost=cost, progress=progress, request=request
        )
        return found, kv[:, :, :found]

    async def get_longest_prefixes(
        self,
        prompts: Sequence[TokenIds],
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
    ) -> list[tuple[int, KVArray]]:
        """:meth:`get_longest_prefix` for several prompts at once."""
        return await gather(
            [
                self.get_longest_prefix(tokens, deadline_s=deadline_s, cost=cost)
                for tokens in prompts
            ]
        )

    async def load_prefix(
        self,
        tokens: TokenIds,
        into: KVSource,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
        request: str = "",
    ) -> int:
        """Load the longest prefix that the pool has into the caller's memory.

        Args:
            tokens: of the prompt.
            into: memory for at least the tokens of its full blocks. Memory behind the tokens found
                may be written to as well.
            deadline_s: blocks that have not arrived by then, from now, count as not found.
            cost: of computing; blocks that are computed sooner than loaded are then left out.
            progress: see :data:`Progress`.
            request: name of an announcement; the announced blocks are awaited until the deadline.

        Returns:
            How many tokens the prefix has.

        Raises:
            KVError: ``into`` does not fit, or the pool is closed.
        """
        pieces = self._pieces(tokens)
        ranges, size = len(self._families), self._layout.block_tokens
        count = len(pieces) // ranges
        self._layout.require_room(into, count * size)
        self._counts.lookups += 1
        self._counts.tokens_asked += count * size
        away = {piece.key for piece in pieces if not self._blocks.here(piece.key)}
        if cost is not None:
            count = self._worth_loading(pieces, away, len(tokens), cost)
        deadline = Deadline(deadline_s)
        arrivals: list[tuple[float, int]] = []
        producer = await self._producer(request, deadline) if request else ""

        async def step(numbers: range) -> int:
            some = pieces[numbers.start : numbers.stop]
            blocks = await self._get(some, deadline.left_s(), producer)
            arrived_s = now_s()
            arrivals.extend(
                (arrived_s, contents.nbytes)
                for piece, contents in zip(some, blocks, strict=True)
                if contents is not None and piece.key in away
            )
            return self._join(into, some, blocks)

        # Announced blocks are awaited one by one: the timeout of each begins with its request.
        block_bytes = self._layout.size_bytes(self._layout.ranges[0])
        batches = (1, _AWAITED) if producer else self._blocks.batches(block_bytes)
        found = await count_done_in_order(count * ranges, step, *batches, progress)
        self._measure(deadline.began_s, arrivals)
        tokens_found = self._tokens_of(found)
        self._counts.tokens_found += tokens_found
        return tokens_found

    async def layers(
        self, tokens: TokenIds, *, deadline_s: float | None = None
    ) -> AsyncGenerator[LoadedLayers, None]:
        """The longest prefix, one range of layers at a time, while the next ones are loading.

        If blocks are lost meanwhile, it ends before the model's last layer, and the caller has to
        compute the prefix.

        Args:
            tokens: of the prompt.
            deadline_s: blocks that have not arrived by then, from now, count as not found.

        Example::

            async for part in pool.layers(tokens):
                cache.fill(part.layers.first, part.kv)       # of part.tokens tokens
        """
        hashes = self._hashes(tokens)
        self._counts.lookups += 1
        self._counts.tokens_asked += len(hashes) * self._layout.block_tokens
        keys = [[BlockKey(family, digest) for digest in hashes] for family in self._families]
        deadline = Deadline(deadline_s)
        kv, blocks = await self._load_first_layers(keys, deadline)
        ranges = self._layout.ranges if blocks else ()
        length = blocks * self._layout.block_tokens
        ahead: asyncio.Future[tuple[KVArray, int]] | None = None
        try:
            for number, layers in enumerate(ranges):
                if ahead is not None:
                    kv, found = await ahead
                    if found < blocks:
                        return
                if number + 1 < len(ranges):
                    following = self._load_layers(number + 1, keys[number + 1][:blocks], deadline)
                    ahead = asyncio.ensure_future(following)
                else:
                    self._counts.tokens_found += length
                yield LoadedLayers(layers, length, kv[:, :, :length])
        finally:
            if ahead is not None:
                await cancel_all([ahead])

    async def exists(self, tokens: TokenIds, timeout_s: float | None = None) -> int:
        """How many tokens the longest prefix has, without loading it."""
        keys = [piece.key for piece in self._pieces(tokens)]
        found = await self._blocks.count_prefix(keys, timeout_s=timeout_s)
        return self._tokens_of(found)

    async def exists_many(self, prompts: Sequence[TokenIds]) -> list[int]:
        """:meth:`exists` for several prompts at once."""
        return await gather([self.exists(tokens) for tokens in prompts])

    async def prefetch(self, tokens: TokenIds, nodes: Sequence[str] | None = None) -> int:
        """Load a prefix to a nearer node before it is needed.

        Args:
            tokens: of the prompt.
            nodes: members that are to keep it beside its homes; by default this process.

        Returns:
            Tokens of the prefix that are there now.
        """
        keys = [piece.key for piece in self._pieces(tokens)]
        return self._tokens_before_gap(await self._blocks.prefetch(keys, nodes=nodes))

    async def pin(self, tokens: TokenIds, lease_s: float = DEFAULT_LEASE_S) -> int:
        """Protect a prefix from eviction for a while; returns how many of its tokens are."""
        keys = [piece.key for piece in self._pieces(tokens)]
        return self._tokens_before_gap(await self._blocks.pin(keys, lease_s))

    async def unpin(self, tokens: TokenIds) -> None:
        """End this process's lease of a prefix."""
        await self._blocks.unpin([piece.key for piece in self._pieces(tokens)])

    async def evict(self, tokens: TokenIds, first_token: int = 0) -> None:
        """Drop a prompt's blocks that begin at or after ``first_token``, here and at their homes.

        Other prompts with the same prefix lose them as well.
        """
        first_block = math.ceil(first_token / self._layout.block_tokens)
        await self._blocks.evict([piece.key for piece in self._pieces(tokens, first_block)])

    def filter(self, tokens: TokenIds | None, older_than_s: float = 0.0) -> BlockFilter:
        """The blocks of this cache's model, or of a prompt alone, at any process."""
        digest = self._families[0].model_digest
        hashes = () if tokens is None else self._hashes(tokens)
        if tokens is not None and not hashes:
            raise KVError(
                f"the prompt of {len(tokens)} tokens has no full block of "
                f"{self._layout.block_tokens} tokens: give a longer one, or none for all blocks"
            )
        return BlockFilter(frozenset({digest}), frozenset(hashes), round(older_than_s))

    async def statistics(self) -> KVStatistics:
        """The counters of this process since it opened the pool."""
        return replace(
            self._counts,
            load_time=self._speed.estimate(now_s()),
            blocks=self._blocks.statistics(),
        )

    async def _producer(self, request: str, deadline: Deadline) -> str:
        """The node that has announced the request's blocks, or none."""
        announced = await self._blocks.announcements.follow(request, timeout_s=deadline.left_s())
        return "" if announced is None else announced.producer

    async def _get(
        self, pieces: Sequence[_Piece], timeout_s: float | None, producer: str = ""
    ) -> list[Contents | None]:
        if not producer:
            return await self._blocks.get_many([p.key for p in pieces], timeout_s=timeout_s)
        return [
            await self._blocks.get(piece.key, timeout_s=timeout_s, producer=producer)
            for piece in pieces
        ]

    def _join(
        self,
        into: KVSource,
        pieces: Sequence[_Piece],
        blocks: Sequence[Contents | None],
        first_layer: int = 0,
    ) -> int:
        """Write blocks to their places, up to the first that was not found; how many these are."""
        for place, (piece, contents) in enumerate(zip(pieces, blocks, strict=True)):
            if contents is None or not self._layout.join(
                into, piece.start, piece.layers, contents, first_layer=first_layer
            ):
                return place
        return len(pieces)

    def _hashes(self, tokens: TokenIds) -> list[bytes]:
        size, salt = self._layout.block_tokens, self._salt
        hashes = list(chain(tokens, size, root=self._root, salt=salt))
        if self._events is not None:
            self._events.describe(self._families[0], hashes, tokens, size, salt)
        return hashes

    def _pieces(self, tokens: TokenIds, first_block: int = 0) -> list[_Piece]:
        """All ranges of the first block, then all of the second, and so on."""
        return [
            _Piece(number * self._layout.block_tokens, layers, BlockKey(family, digest))
            for number, digest in enumerate(self._hashes(tokens))
            if number >= first_block
            for layers, family in zip(self._layout.ranges, self._families, strict=True)
        ]

    async def _load_first_layers(
        self, keys: Sequence[Sequence[BlockKey]], deadline: Deadline
    ) -> tuple[KVArray, int]:
        """The first range of layers, and how many blocks exist in all ranges."""
        counting = asyncio.gather(
            *(self._blocks.count_prefix(each, timeout_s=deadline.left_s()) for each in keys[1:])
        )
        try:
            kv, found = await self._load_layers(0, keys[0], deadline)
            return kv, min([found, *await counting]) if found else 0
        finally:
            await cancel_all([counting])

    async def _load_layers(
        self, number: int, keys: Sequence[BlockKey], deadline: Deadline
    ) -> tuple[KVArray, int]:
        layers, size = self._layout.ranges[number], self._layout.block_tokens
        kv = self._layout.empty(len(keys) * size, layers)

        pieces = [_Piece(block * size, layers, key) for block, key in enumerate(keys)]

        async def step(numbers: range) -> int:
            some = pieces[numbers.start : numbers.stop]
            blocks = await self._get(some, deadline.left_s())
            return self._join(kv, some, blocks, layers.first)

        batches = self._blocks.batches(self._layout.size_bytes(layers))
        return kv, await count_done_in_order(len(keys), step, *batches)

    def _worth_loading(
        self, pieces: Sequence[_Piece], away: set[BlockKey], tokens: int, cost: PrefillCost
    ) -> int:
        ranges = len(self._families)
        time = self._speed.estimate(now_s())
        if time is None:
            return len(pieces) // ranges
        sizes = [self._layout.size_bytes(p.layers) if p.key in away else 0 for p in pieces]
        blocks = [sum(sizes[start : start + ranges]) for start in range(0, len(sizes), ranges)]
        return blocks_worth_loading(blocks, self._layout.block_tokens, tokens, cost, time)

    def _measure(self, began_s: float, arrivals: Sequence[tuple[float, int]]) -> None:
        """Record the loading times of blocks that arrived over the network."""
        if not arrivals:
            return
        first_s, last_s = arrivals[0][0], arrivals[-1][0]
        first_bytes = sum(size for at_s, size in arrivals if at_s == first_s)
        rest_bytes = sum(size for _, size in arrivals) - first_bytes
        self._speed.measured(
            last_s,
            Arrivals(first_s - began_s, first_bytes),
            Arrivals(last_s - first_s, rest_bytes),
        )

    def _tokens_before_gap(self, there: Sequence[bool]) -> int:
        return self._tokens_of(there.index(False) if False in there else len(there))

    def _tokens_of(self, pieces: int) -> int:
        return pieces // len(self._families) * self._layout.block_tokens
