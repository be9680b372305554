"""Keys and values of prompts' prefixes, in a pool of blocks."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from innet.errors import KVError
from innet.kv.hash_chain import TokenIds, chain, root_hash
from innet.kv.layer_loading import LayerLoading, LoadedLayers
from innet.kv.layout import BlockLayout, KVArray, KVSource, LayerRange
from innet.kv.load_speed import Arrivals, LoadSpeed, LoadTime, blocks_worth_loading
from innet.kv.names import BlockKey
from innet.kv.pool import BlockPool, PoolStatistics
from innet.kv.prefill import PrefillCost
from innet.kv.prefix_loading import count_done_in_order

Progress = Callable[[int, int], None]
"""Called with the blocks that are done and those there are, on the pool's thread."""

DEFAULT_LEASE_S: Final = 60.0


@dataclass
class KVStatistics:
    """What a process has done with prompts.

    Attributes:
        lookups: prompts that were looked up.
        tokens_asked: in their full blocks.
        tokens_found: loaded for them.
        tokens_put: in blocks that were put.
        load_time: what loading over the network costs at present, if that is known.
        blocks: the same by blocks, places and causes.
    """

    lookups: int = 0
    tokens_asked: int = 0
    tokens_found: int = 0
    tokens_put: int = 0
    load_time: LoadTime | None = None
    blocks: PoolStatistics = field(default_factory=PoolStatistics)

    @property
    def token_hit_rate(self) -> float:
        """Tokens found of those asked for; 0 before the first."""
        return self.tokens_found / self.tokens_asked if self.tokens_asked else 0.0


@dataclass(frozen=True)
class _Piece:
    """A block of one range of layers."""

    start: int
    layers: LayerRange
    key: BlockKey


class PrefixCache:
    """Keys and values of one model's prompts, by their tokens.

    Lives in the event loop of its pool of blocks. What cannot be had, whatever the cause, is not
    found: nothing but wrong use is an error.
    """

    def __init__(
        self,
        blocks: BlockPool,
        *,
        tenant: str,
        model_digest: str,
        layout: BlockLayout,
        salt: str = "",
        window: int = 8,
    ) -> None:
        """
        Args:
            blocks: where blocks are kept.
            tenant: the component that stands for the tenant in names.
            model_digest: see :class:`innet.kv.model.ModelIdentity`.
            layout: of the model's blocks.
            salt: keeps prompts apart from those with another one.
            window: blocks on their way at once for a prompt.
        """
        self._blocks = blocks
        self._layout = layout
        self._salt = salt
        self._window = window
        self._families = layout.families(tenant, model_digest)
        self._root = root_hash()
        self._speed = LoadSpeed()
        self._counts = KVStatistics()

    async def put(
        self,
        tokens: TokenIds,
        kv: KVSource,
        *,
        first_token: int = 0,
        progress: Progress | None = None,
    ) -> int:
        """Publish the full blocks of a prompt; tokens of its prefix that some home has then.

        Args:
            tokens: of the prompt, all of them.
            kv: of the tokens from ``first_token`` on.
            first_token: those before it are in the pool already, as far as is known.
            progress: see :data:`Progress`.

        Raises:
            KVError: ``kv`` does not fit the model or the tokens.
        """
        if not 0 <= first_token <= len(tokens):
            raise KVError(
                f"the first token of {len(tokens)} is at {first_token}; it is from 0 to "
                f"{len(tokens)}"
            )
        self._layout.require_fitting(kv, len(tokens) - first_token)
        size = self._layout.block_tokens
        first_block = math.ceil(first_token / size)
        pieces = self._pieces(tokens, first_block)
        kept = [False] * len(pieces)
        block_bytes = self._layout.size_bytes(self._layout.ranges[0])
        # Memory that was used a moment ago: to touch new one takes longer than to copy a block.
        spare: list[npt.NDArray[np.uint8]] = []

        async def step(number: int) -> bool:
            piece = pieces[number]
            memory = spare.pop() if spare else np.empty(block_bytes, np.uint8)
            contents = self._layout.cut(kv, piece.start - first_token, piece.layers, memory)
            homes = await self._blocks.put(piece.key, contents, depth=piece.start // size)
            spare.append(memory)
            kept[number] = homes > 0
            return True

        await count_done_in_order(len(pieces), step, self._window, _of(progress, len(pieces)))
        self._counts.tokens_put += len(pieces) // len(self._families) * size
        in_order = next((i for i, there in enumerate(kept) if not there), len(kept))
        return (first_block + in_order // len(self._families)) * size if in_order else first_token

    async def put_many(self, prompts: Sequence[tuple[TokenIds, KVSource]]) -> list[int]:
        """:meth:`put` for several prompts at once."""
        return await asyncio.gather(*(self.put(tokens, kv) for tokens, kv in prompts))

    async def get_longest_prefix(
        self,
        tokens: TokenIds,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
    ) -> tuple[int, KVArray]:
        """The longest prefix that there is: how many tokens, and their keys and values.

        See :meth:`load_prefix`, which takes memory for them.
        """
        size = self._layout.block_tokens
        kv = self._layout.empty(len(tokens) // size * size)
        found = await self.load_prefix(
            tokens, kv, deadline_s=deadline_s, cost=cost, progress=progress
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
        return await asyncio.gather(
            *(
                self.get_longest_prefix(tokens, deadline_s=deadline_s, cost=cost)
                for tokens in prompts
            )
        )

    async def load_prefix(
        self,
        tokens: TokenIds,
        into: KVSource,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Load the longest prefix that there is; how many tokens it has.

        Args:
            tokens: of the prompt.
            into: memory for at least the tokens of its full blocks. What is behind the tokens found
                may be written to as well.
            deadline_s: what has not come by then, from now, is not found.
            cost: of computing; blocks that are sooner computed than loaded are left out then.
            progress: see :data:`Progress`.

        Raises:
            KVError: ``into`` does not fit.
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
        load = _Load(self._blocks, self._layout, into, away, deadline_s)
        found = await count_done_in_order(
            count * ranges,
            lambda number: load.step(pieces[number]),
            self._window,
            _of(progress, count * ranges),
        )
        load.measure(self._speed)
        tokens_found = self._tokens_of(found)
        self._counts.tokens_found += tokens_found
        return tokens_found

    async def layers(
        self, tokens: TokenIds, *, deadline_s: float | None = None
    ) -> AsyncGenerator[LoadedLayers, None]:
        """The longest prefix, layers after layers; see :meth:`LayerLoading.parts`.

        Args:
            tokens: of the prompt.
            deadline_s: what has not come by then, from now, is not found.
        """
        hashes = self._hashes(tokens)
        self._counts.lookups += 1
        self._counts.tokens_asked += len(hashes) * self._layout.block_tokens
        loading = LayerLoading(
            self._blocks,
            self._layout,
            [[BlockKey(family, digest) for digest in hashes] for family in self._families],
            window=self._window,
            deadline_s=deadline_s,
        )
        async with contextlib.aclosing(loading.parts()) as parts:
            async for part in parts:
                if part.layers.end == self._layout.layers:
                    self._counts.tokens_found += part.tokens
                yield part

    async def count_tokens(self, tokens: TokenIds, timeout_s: float | None = None) -> int:
        """Tokens of the longest prefix that there is, without loading it."""
        keys = [piece.key for piece in self._pieces(tokens)]
        found = await self._blocks.count_prefix(keys, timeout_s=timeout_s)
        return self._tokens_of(found)

    async def count_tokens_many(self, prompts: Sequence[TokenIds]) -> list[int]:
        """:meth:`count_tokens` for several prompts at once."""
        return await asyncio.gather(*map(self.count_tokens, prompts))

    async def prefetch(self, tokens: TokenIds, nodes: Sequence[str] | None = None) -> int:
        """Bring a prefix nearer; tokens of what is there then, from the first on."""
        keys = [piece.key for piece in self._pieces(tokens)]
        return self._tokens_before_gap(await self._blocks.prefetch(keys, nodes=nodes))

    async def pin(self, tokens: TokenIds, lease_s: float) -> int:
        """Let a prefix stay for a while; tokens of what does, from the first on."""
        keys = [piece.key for piece in self._pieces(tokens)]
        return self._tokens_before_gap(await self._blocks.pin(keys, lease_s))

    async def unpin(self, tokens: TokenIds) -> None:
        """End this node's leases of a prefix."""
        await self._blocks.unpin([piece.key for piece in self._pieces(tokens)])

    async def evict(self, tokens: TokenIds, first_token: int = 0) -> None:
        """Drop the blocks of a prompt that begin at or after ``first_token``."""
        first_block = math.ceil(first_token / self._layout.block_tokens)
        await self._blocks.evict([piece.key for piece in self._pieces(tokens, first_block)])

    async def statistics(self) -> KVStatistics:
        """What was done so far; a copy."""
        counts = self._counts
        return KVStatistics(
            counts.lookups,
            counts.tokens_asked,
            counts.tokens_found,
            counts.tokens_put,
            self._speed.estimate(asyncio.get_running_loop().time()),
            self._blocks.statistics(),
        )

    def _hashes(self, tokens: TokenIds) -> list[bytes]:
        return list(chain(tokens, self._layout.block_tokens, root=self._root, salt=self._salt))

    def _pieces(self, tokens: TokenIds, first_block: int = 0) -> list[_Piece]:
        """All ranges of the first block, then all of the second, and so on."""
        return [
            _Piece(number * self._layout.block_tokens, layers, BlockKey(family, digest))
            for number, digest in enumerate(self._hashes(tokens))
            if number >= first_block
            for layers, family in zip(self._layout.ranges, self._families, strict=True)
        ]

    def _worth_loading(
        self, pieces: Sequence[_Piece], away: set[BlockKey], tokens: int, cost: PrefillCost
    ) -> int:
        ranges = len(self._families)
        time = self._speed.estimate(asyncio.get_running_loop().time())
        if time is None:
            return len(pieces) // ranges
        sizes = [self._layout.size_bytes(p.layers) if p.key in away else 0 for p in pieces]
        blocks = [sum(sizes[start : start + ranges]) for start in range(0, len(sizes), ranges)]
        return blocks_worth_loading(blocks, self._layout.block_tokens, tokens, cost, time)

    def _tokens_before_gap(self, there: Sequence[bool]) -> int:
        return self._tokens_of(there.index(False) if False in there else len(there))

    def _tokens_of(self, pieces: int) -> int:
        return pieces // len(self._families) * self._layout.block_tokens


class _Load:
    """One load of a prefix."""

    def __init__(
        self,
        blocks: BlockPool,
        layout: BlockLayout,
        kv: KVSource,
        away: set[BlockKey],
        deadline_s: float | None,
    ) -> None:
        self._blocks = blocks
        self._layout = layout
        self._kv = kv
        self._away = away
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._end_s = None if deadline_s is None else self._began_s + deadline_s
        self._arrivals: list[tuple[float, int]] = []

    async def step(self, piece: _Piece) -> bool:
        left_s = None if self._end_s is None else max(0.0, self._end_s - self._loop.time())
        contents = await self._blocks.get(piece.key, timeout_s=left_s)
        if contents is None:
            return False
        if piece.key in self._away:
            self._arrivals.append((self._loop.time(), contents.nbytes))
        return self._layout.join(self._kv, piece.start, piece.layers, contents)

    def measure(self, speed: LoadSpeed) -> None:
        """Tell what the blocks have cost that came over the network."""
        if not self._arrivals:
            return
        first_s, last_s = self._arrivals[0][0], self._arrivals[-1][0]
        first_bytes = sum(size for at_s, size in self._arrivals if at_s == first_s)
        rest_bytes = sum(size for _, size in self._arrivals) - first_bytes
        speed.measured(
            last_s,
            Arrivals(first_s - self._began_s, first_bytes),
            Arrivals(last_s - first_s, rest_bytes),
        )


def _of(progress: Progress | None, count: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(done, count)
