"""Keys and values of a model's prompts, shared by the workers of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Self, Unpack

from innet.errors import KVError
from innet.kv.hash_chain import TokenIds
from innet.kv.layer_loading import LoadedLayers
from innet.kv.layout import BlockLayout, KVArray, KVSource
from innet.kv.model import ModelIdentity
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import PoolOptions
from innet.kv.prefill import PrefillCost
from innet.kv.prefix_cache import DEFAULT_LEASE_S, KVStatistics, PrefixCache, Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DEFAULT_BLOCK_TOKENS = 16


class KVPool:
    """A cache of prompts' prefixes that all workers have together.

    Its engine runs on a thread of its own: this process serves others also while it computes. The
    coroutines here can be awaited in any event loop; :attr:`blocking` has the same methods for
    programs without one.

    Whatever goes wrong with a block (its host has died, it came late, it is not what its tenant
    signed) is a miss: the prefix found is shorter, and nothing is raised. Statistics tell why.

    Example::

        pool = innet.KVPool(model, tenant="acme", memory="1GiB", offered_memory="4GiB")
        n, kv = await pool.get_longest_prefix(tokens)      # kv: (layers, 2, n, kv_heads, head_dim)
        ...                                                # compute the tokens from n on
        await pool.put(tokens, new_kv, first_token=n)

    Attributes:
        model: whose keys and values these are.
        layout: of its blocks.
        blocking: the same for programs without an event loop.
    """

    def __init__(
        self,
        model: ModelIdentity | PreTrainedModel,
        *,
        block_tokens: int = DEFAULT_BLOCK_TOKENS,
        layers_per_block: int | None = None,
        salt: str = "",
        member: PoolMember | None = None,
        **options: Unpack[PoolOptions],
    ) -> None:
        """
        Args:
            model: an identity, or a model of ``transformers``, whose weights are hashed then.
            block_tokens: tokens of a block; only full blocks are kept.
            layers_per_block: fewer than all, and decoding can begin before the last have come
                (:meth:`layers`); by default all layers of a token are in one block.
            salt: keeps prompts apart from those with another one.
            member: of a pool, which may serve several models; by default it is opened with
                ``options``, and closed with this.
            options: see :class:`innet.kv.pool_options.PoolOptions`.

        Raises:
            EmulationError: this process was not started by ``innet run``.
            KVError: an argument cannot be as it is.
            SecurityError: the tenant's secret cannot be used.
        """
        if member is not None and options:
            raise KVError(f"the member has options already; leave out {', '.join(options)}")
        if not isinstance(model, ModelIdentity):
            model = ModelIdentity.of_transformers(model)
        self.model = model
        self.layout = BlockLayout.of_model(model, block_tokens, layers_per_block)
        self._owns_member = member is None
        self._member = PoolMember.open(**options) if member is None else member
        self._cache = PrefixCache(
            self._member.blocks,
            tenant=self._member.tenant,
            model_digest=model.digest,
            layout=self.layout,
            salt=salt,
        )
        self.blocking = BlockingKVPool(self._member, self._cache)

    async def put(
        self,
        tokens: TokenIds,
        kv: KVSource,
        *,
        first_token: int = 0,
        progress: Progress | None = None,
    ) -> int:
        """Give a prompt's keys and values to all; see :meth:`PrefixCache.put`.

        Returns:
            Tokens of the prefix, from ``first_token`` on without a gap, that some home has then.

        Raises:
            KVError: ``kv`` does not fit the model or the tokens, or the pool is closed.
        """
        work = self._cache.put(tokens, kv, first_token=first_token, progress=progress)
        return await self._member.call(work)

    async def put_many(self, prompts: Sequence[tuple[TokenIds, KVSource]]) -> list[int]:
        """:meth:`put` for several prompts at once."""
        return await self._member.call(self._cache.put_many(prompts))

    async def get_longest_prefix(
        self,
        tokens: TokenIds,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
    ) -> tuple[int, KVArray]:
        """The longest prefix that there is; see :meth:`PrefixCache.load_prefix` for the arguments.

        Returns:
            How many tokens it has, and their keys and values, ``(layers, 2, tokens, kv_heads,
            head_dim)``.

        Raises:
            KVError: the pool is closed.
        """
        work = self._cache.get_longest_prefix(
            tokens, deadline_s=deadline_s, cost=cost, progress=progress
        )
        return await self._member.call(work)

    async def get_longest_prefixes(
        self,
        prompts: Sequence[TokenIds],
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
    ) -> list[tuple[int, KVArray]]:
        """:meth:`get_longest_prefix` for several prompts at once."""
        work = self._cache.get_longest_prefixes(prompts, deadline_s=deadline_s, cost=cost)
        return await self._member.call(work)

    async def load_prefix(
        self,
        tokens: TokenIds,
        into: KVSource,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
    ) -> int:
        """:meth:`get_longest_prefix` into the caller's memory; see :meth:`PrefixCache.load_prefix`.

        Raises:
            KVError: ``into`` does not fit, or the pool is closed.
        """
        work = self._cache.load_prefix(
            tokens, into, deadline_s=deadline_s, cost=cost, progress=progress
        )
        return await self._member.call(work)

    async def layers(
        self, tokens: TokenIds, *, deadline_s: float | None = None
    ) -> AsyncGenerator[LoadedLayers, None]:
        """The longest prefix, layers after layers, while the next ones are on their way.

        Where blocks are lost meanwhile, it ends before the model's last layer, and the prefix has
        to be computed after all.

        Example::

            async for part in pool.layers(tokens):
                cache.fill(part.layers.first, part.kv)       # of part.tokens tokens
        """
        parts = self._cache.layers(tokens, deadline_s=deadline_s)
        try:
            while (part := await self._member.call(_next(parts))) is not None:
                yield part
        finally:
            with contextlib.suppress(KVError):  # the pool may be closed before the iterator
                await self._member.call(parts.aclose())

    async def exists(self, tokens: TokenIds) -> int:
        """How many tokens the longest prefix has; nothing is loaded."""
        return await self._member.call(self._cache.count_tokens(tokens))

    async def exists_many(self, prompts: Sequence[TokenIds]) -> list[int]:
        """:meth:`exists` for several prompts at once."""
        return await self._member.call(self._cache.count_tokens_many(prompts))

    async def prefetch(self, tokens: TokenIds, nodes: Sequence[str] | None = None) -> int:
        """Bring a prefix nearer before it is needed; tokens of it that are there then.

        Args:
            tokens: of the prompt.
            nodes: members that are to have it beside its homes; by default this process.
        """
        return await self._member.call(self._cache.prefetch(tokens, nodes))

    async def pin(self, tokens: TokenIds, lease_s: float = DEFAULT_LEASE_S) -> int:
        """Let a prefix stay for a while, whatever else has to go; tokens of what does."""
        return await self._member.call(self._cache.pin(tokens, lease_s))

    async def unpin(self, tokens: TokenIds) -> None:
        """End this process's lease of a prefix."""
        await self._member.call(self._cache.unpin(tokens))

    async def evict(self, tokens: TokenIds, first_token: int = 0) -> None:
        """Drop a prompt's blocks that begin at or after ``first_token``, here and at their homes.

        Other prompts that begin alike lose them as well.
        """
        await self._member.call(self._cache.evict(tokens, first_token))

    async def members(self, at_least: int = 0, timeout_s: float = 10.0) -> tuple[str, ...]:
        """The hosts that offer memory; see :meth:`PoolMember.members`."""
        return await self._member.call(self._member.members(at_least, timeout_s))

    async def statistics(self) -> KVStatistics:
        """What this process has done with the pool so far."""
        return await self._member.call(self._cache.statistics())

    async def aclose(self) -> None:
        """:meth:`close`, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Leave the pool. Blocks that this process alone has are lost. Safe to call twice."""
        if self._owns_member:
            self._member.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class BlockingKVPool:
    """The methods of a :class:`KVPool` for programs without an event loop: the caller waits."""

    def __init__(self, member: PoolMember, cache: PrefixCache) -> None:
        """See :attr:`KVPool.blocking`."""
        self._member = member
        self._cache = cache

    def put(
        self,
        tokens: TokenIds,
        kv: KVSource,
        *,
        first_token: int = 0,
        progress: Progress | None = None,
    ) -> int:
        """See :meth:`KVPool.put`."""
        work = self._cache.put(tokens, kv, first_token=first_token, progress=progress)
        return self._member.run(work)

    def put_many(self, prompts: Sequence[tuple[TokenIds, KVSource]]) -> list[int]:
        """See :meth:`KVPool.put_many`."""
        return self._member.run(self._cache.put_many(prompts))

    def get_longest_prefix(
        self,
        tokens: TokenIds,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
    ) -> tuple[int, KVArray]:
        """See :meth:`KVPool.get_longest_prefix`."""
        work = self._cache.get_longest_prefix(
            tokens, deadline_s=deadline_s, cost=cost, progress=progress
        )
        return self._member.run(work)

    def get_longest_prefixes(
        self,
        prompts: Sequence[TokenIds],
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
    ) -> list[tuple[int, KVArray]]:
        """See :meth:`KVPool.get_longest_prefixes`."""
        work = self._cache.get_longest_prefixes(prompts, deadline_s=deadline_s, cost=cost)
        return self._member.run(work)

    def load_prefix(
        self,
        tokens: TokenIds,
        into: KVSource,
        *,
        deadline_s: float | None = None,
        cost: PrefillCost | None = None,
        progress: Progress | None = None,
    ) -> int:
        """See :meth:`KVPool.load_prefix`."""
        work = self._cache.load_prefix(
            tokens, into, deadline_s=deadline_s, cost=cost, progress=progress
        )
        return self._member.run(work)

    def layers(
        self, tokens: TokenIds, *, deadline_s: float | None = None
    ) -> Iterator[LoadedLayers]:
        """See :meth:`KVPool.layers`."""
        parts = self._cache.layers(tokens, deadline_s=deadline_s)
        try:
            while (part := self._member.run(_next(parts))) is not None:
                yield part
        finally:
            with contextlib.suppress(KVError):  # the pool may be closed before the iterator
                self._member.run(parts.aclose())

    def exists(self, tokens: TokenIds) -> int:
        """See :meth:`KVPool.exists`."""
        return self._member.run(self._cache.count_tokens(tokens))

    def exists_many(self, prompts: Sequence[TokenIds]) -> list[int]:
        """See :meth:`KVPool.exists_many`."""
        return self._member.run(self._cache.count_tokens_many(prompts))

    def prefetch(self, tokens: TokenIds, nodes: Sequence[str] | None = None) -> int:
        """See :meth:`KVPool.prefetch`."""
        return self._member.run(self._cache.prefetch(tokens, nodes))

    def pin(self, tokens: TokenIds, lease_s: float = DEFAULT_LEASE_S) -> int:
        """See :meth:`KVPool.pin`."""
        return self._member.run(self._cache.pin(tokens, lease_s))

    def unpin(self, tokens: TokenIds) -> None:
        """See :meth:`KVPool.unpin`."""
        self._member.run(self._cache.unpin(tokens))

    def evict(self, tokens: TokenIds, first_token: int = 0) -> None:
        """See :meth:`KVPool.evict`."""
        self._member.run(self._cache.evict(tokens, first_token))

    def members(self, at_least: int = 0, timeout_s: float = 10.0) -> tuple[str, ...]:
        """See :meth:`KVPool.members`."""
        return self._member.run(self._member.members(at_least, timeout_s))

    def statistics(self) -> KVStatistics:
        """See :meth:`KVPool.statistics`."""
        return self._member.run(self._cache.statistics())


async def _next(parts: AsyncGenerator[LoadedLayers, None]) -> LoadedLayers | None:
    return await anext(parts, None)
