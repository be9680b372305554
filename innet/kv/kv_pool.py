"""``innet.KVPool``: keys and values of a model's prompts, shared by the workers of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from innet.errors import KVError
from innet.kv.codec import CodecName
from innet.kv.hash_chain import TokenIds
from innet.kv.labels import PoolInventory
from innet.kv.layout import BlockLayout
from innet.kv.model import ModelIdentity
from innet.kv.pool.administration import BulkResult
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import PoolOptions
from innet.kv.prefix_cache import LoadedLayers, PrefixCache

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

DEFAULT_BLOCK_TOKENS = 16


def _awaited(
    method: Callable[Concatenate[PrefixCache, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[KVPool, Arguments], Coroutine[Any, Any, Result]]:
    """The method for callers in any event loop."""

    @functools.wraps(method)
    async def call(self: KVPool, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return await self._member.call(method(self._cache, *args, **options))

    return call


def _blocking(
    method: Callable[Concatenate[PrefixCache, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[BlockingKVPool, Arguments], Result]:
    """The method for callers without an event loop."""

    @functools.wraps(method)
    def call(self: BlockingKVPool, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._member.run(method(self._cache, *args, **options))

    return call


class KVPool:
    """A cache of prompts' prefixes that all workers share.

    Its engine runs on its own thread, so this process serves blocks to others while it computes.
    The coroutines can be awaited in any event loop; :attr:`blocking` has the same methods for
    programs without one.

    A block that fails to load (its host died, it arrived late, its tenant did not sign it) is a
    miss: the prefix found is shorter, and no error is raised. Statistics count the causes.

    The methods are those of :class:`~innet.kv.prefix_cache.PrefixCache`, which documents them.

    Example::

        pool = innet.KVPool(model, tenant="acme", memory="1GiB", offered_memory="4GiB")
        n, kv = await pool.get_longest_prefix(tokens)      # kv: (layers, 2, n, kv_heads, head_dim)
        ...                                                # compute the tokens from n on
        await pool.put(tokens, new_kv, first_token=n)

    Attributes:
        model: whose keys and values these are.
        layout: of its blocks.
        blocking: the same methods for programs without an event loop.
    """

    def __init__(
        self,
        model: ModelIdentity | PreTrainedModel,
        *,
        block_tokens: int = DEFAULT_BLOCK_TOKENS,
        layers_per_block: int | None = None,
        codec: CodecName | None = None,
        salt: str = "",
        member: PoolMember | None = None,
        **options: Unpack[PoolOptions],
    ) -> None:
        """
        Args:
            model: an identity, or a model of ``transformers``, whose weights are then hashed.
            block_tokens: tokens of a block; only full blocks are kept.
            layers_per_block: with fewer than all, decoding can begin before the last layers have
                arrived (:meth:`layers`); by default a block has all layers of its tokens.
            codec: quantises blocks, ``fp8`` or ``int8``: half of the bytes of ``bf16``, with keys
                and values that differ a little. It is part of the blocks' names, so only pools
                with the same codec share blocks.
            salt: separates prompts from those with another salt.
            member: of a pool, which may serve several models; by default one is opened with
                ``options`` and closed with this pool.
            options: see :class:`innet.kv.pool_options.PoolOptions`.

        Raises:
            EmulationError: this process was not started by ``innet run``.
            KVError: an argument is invalid.
            SecurityError: the tenant's secret cannot be used.
        """
        if member is not None and options:
            raise KVError(f"the member has options already; leave out {', '.join(options)}")
        if not isinstance(model, ModelIdentity):
            model = ModelIdentity.of_transformers(model)
        self.model = model
        self.layout = BlockLayout.of_model(model, block_tokens, layers_per_block, codec)
        self._owns_member = member is None
        self._member = PoolMember.open(**options) if member is None else member
        self._cache = PrefixCache(
            self._member.blocks,
            tenant=self._member.tenant,
            model_digest=model.digest,
            layout=self.layout,
            salt=salt,
            events=self._member.events,
        )
        self.blocking = BlockingKVPool(self._member, self._cache)

    announce = _awaited(PrefixCache.announce)
    withdraw = _awaited(PrefixCache.withdraw)
    put = _awaited(PrefixCache.put)
    put_many = _awaited(PrefixCache.put_many)
    get_longest_prefix = _awaited(PrefixCache.get_longest_prefix)
    get_longest_prefixes = _awaited(PrefixCache.get_longest_prefixes)
    load_prefix = _awaited(PrefixCache.load_prefix)
    exists = _awaited(PrefixCache.exists)
    exists_many = _awaited(PrefixCache.exists_many)
    prefetch = _awaited(PrefixCache.prefetch)
    pin = _awaited(PrefixCache.pin)
    unpin = _awaited(PrefixCache.unpin)
    evict = _awaited(PrefixCache.evict)
    statistics = _awaited(PrefixCache.statistics)

    async def layers(
        self, tokens: TokenIds, *, deadline_s: float | None = None
    ) -> AsyncGenerator[LoadedLayers, None]:
        parts = self._cache.layers(tokens, deadline_s=deadline_s)
        try:
            while (part := await self._member.call(_next(parts))) is not None:
                yield part
        finally:
            with contextlib.suppress(KVError):  # the pool may be closed before the iterator
                await self._member.call(parts.aclose())

    async def inventory(self) -> PoolInventory:
        """The blocks of all models at all processes; see :meth:`PoolMember.inventory`."""
        return await self._member.call(self._member.inventory())

    async def purge(
        self, tokens: TokenIds | None = None, *, older_than_s: float = 0.0
    ) -> BulkResult:
        """Drop this model's blocks from all tiers of all processes; see :meth:`PoolMember.purge`.

        Args:
            tokens: drop a prompt's full blocks alone; other prompts lose what they share with it.
            older_than_s: only blocks that a process has had for as long.
        """
        return await self._member.call(self._member.purge(self._cache.filter(tokens, older_than_s)))

    async def members(self, at_least: int = 0, timeout_s: float = 10.0) -> tuple[str, ...]:
        """The hosts that offer memory; see :meth:`PoolMember.members`."""
        return await self._member.call(self._member.members(at_least, timeout_s))

    async def aclose(self) -> None:
        """:meth:`close`, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Leave the pool. Blocks that only this process has are lost. Safe to call twice."""
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

    announce = _blocking(PrefixCache.announce)
    withdraw = _blocking(PrefixCache.withdraw)
    put = _blocking(PrefixCache.put)
    put_many = _blocking(PrefixCache.put_many)
    get_longest_prefix = _blocking(PrefixCache.get_longest_prefix)
    get_longest_prefixes = _blocking(PrefixCache.get_longest_prefixes)
    load_prefix = _blocking(PrefixCache.load_prefix)
    exists = _blocking(PrefixCache.exists)
    exists_many = _blocking(PrefixCache.exists_many)
    prefetch = _blocking(PrefixCache.prefetch)
    pin = _blocking(PrefixCache.pin)
    unpin = _blocking(PrefixCache.unpin)
    evict = _blocking(PrefixCache.evict)
    statistics = _blocking(PrefixCache.statistics)

    def layers(
        self, tokens: TokenIds, *, deadline_s: float | None = None
    ) -> Iterator[LoadedLayers]:
        parts = self._cache.layers(tokens, deadline_s=deadline_s)
        try:
            while (part := self._member.run(_next(parts))) is not None:
                yield part
        finally:
            with contextlib.suppress(KVError):  # the pool may be closed before the iterator
                self._member.run(parts.aclose())

    def inventory(self) -> PoolInventory:
        return self._member.run(self._member.inventory())

    def purge(self, tokens: TokenIds | None = None, *, older_than_s: float = 0.0) -> BulkResult:
        return self._member.run(self._member.purge(self._cache.filter(tokens, older_than_s)))

    def members(self, at_least: int = 0, timeout_s: float = 10.0) -> tuple[str, ...]:
        return self._member.run(self._member.members(at_least, timeout_s))


async def _next(parts: AsyncGenerator[LoadedLayers, None]) -> LoadedLayers | None:
    return await anext(parts, None)
