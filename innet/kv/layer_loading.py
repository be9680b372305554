"""Loading a prefix layers after layers: decoding can begin when the first ones are there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from innet.kv.layout import BlockLayout, KVArray, LayerRange
from innet.kv.names import BlockKey
from innet.kv.pool import BlockPool
from innet.kv.prefix_loading import count_done_in_order


@dataclass(frozen=True)
class LoadedLayers:
    """Keys and values of a prefix in some layers.

    Attributes:
        layers: which.
        tokens: of the prefix; the same in all of its layers.
        kv: keys and values, ``(layers, 2, tokens, kv_heads, head_dim)``, of these layers.
    """

    layers: LayerRange
    tokens: int
    kv: KVArray


class LayerLoading:
    """Loads the blocks of a prefix, range of layers by range of layers."""

    def __init__(
        self,
        blocks: BlockPool,
        layout: BlockLayout,
        keys: Sequence[Sequence[BlockKey]],
        *,
        window: int,
        deadline_s: float | None,
    ) -> None:
        """
        Args:
            blocks: the pool.
            layout: of the blocks.
            keys: of the prompt's blocks, for each range of layers.
            window: blocks on their way at once.
            deadline_s: what has not come by then, from now, is not there.
        """
        self._blocks = blocks
        self._layout = layout
        self._keys = keys
        self._window = window
        self._loop = asyncio.get_running_loop()
        self._end_s = None if deadline_s is None else self._loop.time() + deadline_s

    async def parts(self) -> AsyncGenerator[LoadedLayers, None]:
        """The layers in their order, while the next ones are on their way.

        It ends early where blocks were lost after the first layers had come; then the prefix has to
        be computed after all.
        """
        kv, blocks = await self._first()
        ranges = self._layout.ranges if blocks else ()
        tokens = blocks * self._layout.block_tokens
        ahead: asyncio.Future[tuple[KVArray, int]] | None = None
        try:
            for number, layers in enumerate(ranges):
                if ahead is not None:
                    kv, found = await ahead
                    if found < blocks:
                        return
                if number + 1 < len(ranges):
                    ahead = asyncio.ensure_future(self._load(number + 1, blocks))
                yield LoadedLayers(layers, tokens, kv[:, :, :tokens])
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    async def _first(self) -> tuple[KVArray, int]:
        """The first layers, and how many blocks there are of all."""
        counting = asyncio.gather(
            *(self._blocks.count_prefix(keys, timeout_s=self._left_s()) for keys in self._keys[1:])
        )
        try:
            kv, found = await self._load(0, len(self._keys[0]))
            if not found:
                return kv, 0
            return kv, min([found, *await counting])
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    async def _load(self, number: int, blocks: int) -> tuple[KVArray, int]:
        layers, keys = self._layout.ranges[number], self._keys[number]
        size = self._layout.block_tokens
        kv = self._layout.empty(blocks * size, layers)

        async def step(block: int) -> bool:
            contents = await self._blocks.get(keys[block], timeout_s=self._left_s())
            return contents is not None and self._layout.join(
                kv, block * size, layers, contents, first_layer=layers.first
            )

        return kv, await count_done_in_order(blocks, step, self._window)

    def _left_s(self) -> float | None:
        return None if self._end_s is None else max(0.0, self._end_s - self._loop.time())
