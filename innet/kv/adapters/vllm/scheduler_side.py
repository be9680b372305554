"""The connector in vLLM's scheduler: which chunks exist, and which are to be loaded and saved."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request

from innet.kv.adapters.lookups import CountPrefix, Wait
from innet.kv.adapters.vllm.cache_identity import CacheIdentity, Chunk, Load, StepTransfers

REQUEST_PARAMETER: Final = "innet_request"
"""Of ``kv_transfer_params``: the name of a request that two engines serve."""
_log = logging.getLogger(__name__)


@dataclass
class _Lookup:
    """The number of existing objects from ``first_chunk`` on, one for each rank and chunk."""

    first_chunk: int
    existing: Future[int]


@dataclass
class _Tracked:
    """A request with blocks.

    Attributes:
        request: as the scheduler has it; its hashes grow with its tokens.
        block_ids: of all its blocks, in order.
        saved_chunks: number of chunks that are, or will be, in the pool.
        loading: blocks that are being loaded.
        has_failed: whether loading failed, so that the request is computed from now on.
    """

    request: Request
    block_ids: list[int] = field(default_factory=list)
    saved_chunks: int = 0
    loading: tuple[int, ...] = ()
    has_failed: bool = False


@dataclass(frozen=True)
class EngineRole:
    """vLLM's ``kv_role``.

    Attributes:
        loads: it loads blocks: all but a ``kv_producer``.
        saves: it saves blocks: all but a ``kv_consumer``.
        announced_timeout_s: how long it waits for announced blocks.
    """

    loads: bool
    saves: bool
    announced_timeout_s: float

    def announces(self, request: Request) -> str:
        """The name under which it announces the request's blocks, if it does."""
        return "" if self.loads else _name_of(request)

    def awaits(self, request: Request) -> Wait | None:
        """The wait for the request's blocks, if another engine announces them."""
        name = "" if self.saves else _name_of(request)
        return Wait(name, self.announced_timeout_s) if name else None


class SchedulerSide:
    """The connector's state in the scheduler.

    Args:
        count_prefix: looks chunks up.
        cache: the engine's.
        role: of the engine.
        has_events: the worker publishes events, and needs the tokens of chunks for them.
    """

    def __init__(
        self,
        count_prefix: CountPrefix,
        cache: CacheIdentity,
        role: EngineRole,
        *,
        has_events: bool = False,
    ) -> None:
        self._role = role
        self._announcements: dict[str, list[bytes]] = {}
        self._announced: dict[str, str] = {}
        self._withdrawals: list[str] = []
        self._count_prefix = count_prefix
        self._cache = cache
        self._has_events = has_events
        self._lookups: dict[str, _Lookup] = {}
        self._tracked: dict[str, _Tracked] = {}
        self._loads: list[Load] = []

    def matched_tokens(self, request: Request, computed_tokens: int) -> int | None:
        """Tokens after ``computed_tokens`` that can be loaded; ``None`` while that is not known."""
        tracked = self._tracked.get(request.request_id)
        if not self._role.loads or (tracked is not None and tracked.has_failed):
            return 0
        lookup = self._lookup(request, computed_tokens)
        if lookup is None:
            return 0
        if not lookup.existing.done():
            return None
        chunks = lookup.first_chunk + self._existing(lookup)
        return max(0, chunks * self._cache.chunk_tokens - computed_tokens)

    def allocated(self, request: Request, blocks: KVCacheBlocks, external_tokens: int) -> None:
        """The request has ``blocks``; load the first ones that are not computed."""
        lookup = self._lookups.pop(request.request_id, None)
        tracked = self._tracked.setdefault(request.request_id, _Tracked(request))
        tracked.block_ids = list(blocks.get_block_ids()[0])
        tracked.loading = ()
        self._announce(request)
        if not external_tokens or lookup is None:
            return
        end_chunk = lookup.first_chunk + self._existing(lookup)
        end_token = end_chunk * self._cache.chunk_tokens
        chunks = self._chunks(tracked, end_token - external_tokens, end_token)
        tracked.loading = tuple(block for chunk in chunks for block in chunk.block_ids)
        tracked.saved_chunks = max(tracked.saved_chunks, end_chunk)
        wait = self._role.awaits(request)
        self._loads.append(Load(request.request_id, chunks, wait.request if wait else ""))

    def transfers(self, output: SchedulerOutput) -> StepTransfers:
        """Transfers of the step that ``output`` describes."""
        loads, self._loads = self._loads, []
        saves: list[Chunk] = []
        for new in output.scheduled_new_reqs:
            if tracked := self._tracked.get(new.req_id):
                tracked.block_ids = list(new.block_ids[0])
                scheduled = output.num_scheduled_tokens[new.req_id]
                saves += self._saves(tracked, new.num_computed_tokens + scheduled)
        cached = output.scheduled_cached_reqs
        for index, request_id in enumerate(cached.req_ids):
            if tracked := self._tracked.get(request_id):
                if new_blocks := cached.new_block_ids[index]:
                    kept = [] if request_id in cached.resumed_req_ids else tracked.block_ids
                    tracked.block_ids = [*kept, *new_blocks[0]]
                scheduled = output.num_scheduled_tokens[request_id]
                saves += self._saves(tracked, cached.num_computed_tokens[index] + scheduled)
        announcements, self._announcements = self._announcements, {}
        withdrawals, self._withdrawals = self._withdrawals, []
        return StepTransfers(loads, saves, announcements, withdrawals)

    def loaded(self, output: KVConnectorOutput) -> None:
        """Compute blocks that failed to load, and save them again."""
        invalid = output.invalid_block_ids
        for tracked in self._tracked.values():
            if invalid and not invalid.isdisjoint(tracked.loading):
                first = next(i for i, block in enumerate(tracked.block_ids) if block in invalid)
                tracked.has_failed = True
                tracked.saved_chunks = min(tracked.saved_chunks, first // self._cache.chunk_blocks)

    def finished(self, request: Request) -> None:
        """Forget a request."""
        self._tracked.pop(request.request_id, None)
        lookup = self._lookups.pop(request.request_id, None)
        if lookup is not None:
            lookup.existing.cancel()
        if name := self._announced.pop(request.request_id, ""):
            self._withdrawals.append(name)

    def _announce(self, request: Request) -> None:
        """Announce a request's chunks, once."""
        name = self._role.announces(request)
        if name and request.request_id not in self._announced:
            self._announced[request.request_id] = name
            self._announcements[name] = self._chunk_hashes(request, request.num_prompt_tokens)

    def _lookup(self, request: Request, computed_tokens: int) -> _Lookup | None:
        first = computed_tokens // self._cache.chunk_tokens
        lookup = self._lookups.get(request.request_id)
        if lookup is None or lookup.first_chunk != first:
            # At least one token of a prompt is computed: the first new one follows from it.
            hashes = self._chunk_hashes(request, request.num_tokens - 1)[first:]
            if not hashes:
                return None
            keys = self._cache.last_keys(hashes)
            lookup = _Lookup(first, self._count_prefix(keys, self._role.awaits(request)))
            self._lookups[request.request_id] = lookup
        return lookup

    def _existing(self, lookup: _Lookup) -> int:
        """The chunks of which each rank's part exists."""
        return _result_of(lookup.existing) // self._cache.ranks

    def _saves(self, tracked: _Tracked, computed_tokens: int) -> tuple[Chunk, ...]:
        """The chunks that ``computed_tokens`` complete and that are not saved.

        Speculative tokens are computed as well, but have no hashes.
        """
        if not self._role.saves:
            return ()
        size = self._cache.chunk_tokens
        end = len(self._chunk_hashes(tracked.request, computed_tokens))
        start = min(tracked.saved_chunks, end)
        tracked.saved_chunks = max(tracked.saved_chunks, end)
        return self._chunks(tracked, start * size, end * size)

    def _chunks(self, tracked: _Tracked, start_token: int, end_token: int) -> tuple[Chunk, ...]:
        """The chunks of the tokens from ``start_token`` on, the first of a block."""
        per_chunk = self._cache.chunk_blocks
        start, end = (token // self._cache.block_tokens for token in (start_token, end_token))
        request, size = tracked.request, self._cache.chunk_tokens
        hashes = self._chunk_hashes(request, end_token)
        # The hashes of other prompts have parts that their events would have to name as well.
        is_plain = request.lora_request is None and not request.mm_features
        has_tokens = self._has_events and is_plain
        chunks = []
        for place in range(start // per_chunk, len(hashes)):
            first = max(start, place * per_chunk)
            chunks.append(
                Chunk(
                    chunk_hash=hashes[place],
                    place=place,
                    first_block=first - place * per_chunk,
                    block_ids=tuple(tracked.block_ids[first : min(end, (place + 1) * per_chunk)]),
                    parent=hashes[place - 1] if place else None,
                    tokens=tuple(request.all_token_ids[place * size : (place + 1) * size])
                    if has_tokens
                    else (),
                    salt="" if place else request.cache_salt or "",
                )
            )
        return tuple(chunks)

    def _chunk_hashes(self, request: Request, tokens: int) -> list[bytes]:
        """Hashes of the chunks that the first ``tokens`` complete."""
        per_chunk = self._cache.chunk_blocks
        blocks = min(tokens // self._cache.block_tokens, len(request.block_hashes))
        ends = range(per_chunk, blocks + 1, per_chunk)
        return [bytes(request.block_hashes[end - 1]) for end in ends]


def _result_of(counting: Future[int]) -> int:
    if counting.cancelled():
        return 0
    if error := counting.exception():
        _log.warning("looking up a prompt in the pool failed: %s", error)
        return 0
    return counting.result()


def _name_of(request: Request) -> str:
    return str((request.kv_transfer_params or {}).get(REQUEST_PARAMETER) or "")
