"""The connector in vLLM's scheduler: which chunks exist, and which are to be loaded and saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request

from innet.errors import KVError
from innet.kv.adapters.lookups import CountPrefix, Wait
from innet.kv.adapters.lora import Adapter
from innet.kv.adapters.vllm.cache_identity import (
    CacheIdentity,
    Chunk,
    ChunkPart,
    Exclusions,
    Load,
    StepTransfers,
)
from innet.kv.adapters.vllm.chunk_lookup import ChunkLookup
from innet.kv.adapters.vllm.chunk_names import ChunkName, ChunkNames

REQUEST_PARAMETER: Final = "innet_request"
"""Key in ``kv_transfer_params`` for the name of a request that two engines serve."""
_NULL_BLOCK: Final = 0
"""vLLM's placeholder for blocks before a sliding window."""


@dataclass
class _Tracked:
    """A request with blocks.

    Attributes:
        request: as the scheduler has it; its hashes grow with its tokens.
        block_ids: of all its blocks, by group, in order.
        states: blocks of states that this step computes, by group and tokens before them.
        saved_chunks: number of chunks that are, or will be, in the pool.
        loading: blocks of the first group that are being loaded.
        has_failed: whether loading failed, so that the request is computed from now on.
    """

    request: Request
    block_ids: list[list[int]] = field(default_factory=list)
    states: dict[tuple[int, int], int] = field(default_factory=dict)
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
        adapter_of: the adapter of a request with one; ``None``: its blocks may not be shared.
        has_events: the worker publishes events, and needs the tokens of chunks for them.
    """

    def __init__(
        self,
        count_prefix: CountPrefix,
        cache: CacheIdentity,
        role: EngineRole,
        adapter_of: Callable[[Request], Adapter | None],
        *,
        has_events: bool = False,
    ) -> None:
        self._role = role
        self._announcements: dict[str, list[ChunkName]] = {}
        self._announced: dict[str, str] = {}
        self._withdrawals: list[str] = []
        self._count_prefix = count_prefix
        self._cache = cache
        self._names = ChunkNames(cache.chunk_tokens, cache.hash_tokens, adapter_of)
        self._excluded = Exclusions()
        self._has_events = has_events
        self._lookups: dict[str, ChunkLookup] = {}
        self._tracked: dict[str, _Tracked] = {}
        self._loads: list[Load] = []

    def adopt(self, facts: Sequence[Mapping[str, Any]]) -> None:
        """Name blocks by the facts of the workers.

        Args:
            facts: of each tensor-parallel rank.

        Raises:
            KVError: they differ.
        """
        first, *others = facts
        for each in others:
            differing = [name for name in first if first[name] != each.get(name)]
            if differing:
                name = differing[0]
                raise KVError(
                    f"the ranks of this engine differ in {name}: {first[name]} and "
                    f"{each.get(name)}. Start them on devices of one kind, from the same files"
                )
        self._cache.adopt(first)

    def matched_tokens(self, request: Request, computed_tokens: int) -> int | None:
        """Tokens after ``computed_tokens`` that can be loaded; ``None`` while that is not known."""
        tracked = self._tracked.get(request.request_id)
        if not self._role.loads or (tracked is not None and tracked.has_failed):
            return 0
        lookup = self._lookup(request, computed_tokens)
        if lookup is None:
            return 0
        end_chunk = lookup.end_chunk()
        if end_chunk is None:
            return None
        return max(0, end_chunk * self._cache.chunk_tokens - computed_tokens)

    def allocated(self, request: Request, blocks: KVCacheBlocks, external_tokens: int) -> None:
        """Record a request's blocks, and load the first ones that are not computed."""
        lookup = self._lookups.pop(request.request_id, None)
        tracked = self._tracked.setdefault(request.request_id, _Tracked(request))
        tracked.block_ids = [list(ids) for ids in blocks.get_block_ids()]
        tracked.loading = ()
        self._announce(request)
        end_chunk = lookup.end_chunk() if lookup is not None and external_tokens else None
        if end_chunk is None:
            return
        end_token = end_chunk * self._cache.chunk_tokens
        chunks = self._chunks(tracked, end_token - external_tokens, end_token)
        tracked.loading = tuple(
            block
            for chunk in chunks
            for part in chunk.parts
            if not part.group
            for block in part.block_ids
        )
        tracked.saved_chunks = max(tracked.saved_chunks, end_chunk)
        wait = self._role.awaits(request)
        self._loads.append(Load(request.request_id, chunks, wait.request if wait else ""))

    def transfers(self, output: SchedulerOutput) -> StepTransfers:
        """Transfers of the step that ``output`` describes."""
        loads, self._loads = self._loads, []
        saves: list[Chunk] = []
        state = output.kv_connector_block_state
        states = state.boundary_state_offloads if state is not None else {}
        for request_id, each in self._tracked.items():
            offered = states.get(request_id, ())
            each.states = {(group, tokens): block for group, block, tokens in offered}
        for new in output.scheduled_new_reqs:
            if tracked := self._tracked.get(new.req_id):
                tracked.block_ids = [list(ids) for ids in new.block_ids]
                scheduled = output.num_scheduled_tokens[new.req_id]
                saves += self._saves(tracked, new.num_computed_tokens, scheduled)
        cached = output.scheduled_cached_reqs
        for index, request_id in enumerate(cached.req_ids):
            if tracked := self._tracked.get(request_id):
                if new_blocks := cached.new_block_ids[index]:
                    if request_id in cached.resumed_req_ids:
                        tracked.block_ids = [[] for _ in new_blocks]
                    for ids, new_ids in zip(tracked.block_ids, new_blocks, strict=True):
                        ids += new_ids
                scheduled = output.num_scheduled_tokens[request_id]
                saves += self._saves(tracked, cached.num_computed_tokens[index], scheduled)
        announcements, self._announcements = self._announcements, {}
        withdrawals, self._withdrawals = self._withdrawals, []
        return StepTransfers(loads, saves, announcements, withdrawals)

    def loaded(self, output: KVConnectorOutput) -> None:
        """Compute blocks that failed to load, and save them again."""
        excluded = getattr(output, "kv_connector_worker_meta", None)
        if isinstance(excluded, Exclusions):
            self._excluded = excluded
        invalid = output.invalid_block_ids
        for request_id, tracked in self._tracked.items():
            if request_id in output.failed_recving:
                tracked.has_failed, tracked.saved_chunks = True, 0
            elif invalid and not invalid.isdisjoint(tracked.loading):
                first = next(i for i, block in enumerate(tracked.block_ids[0]) if block in invalid)
                chunk = first // self._cache.groups[0].chunk_blocks
                tracked.has_failed = True
                tracked.saved_chunks = min(tracked.saved_chunks, chunk)

    def finished(self, request: Request) -> None:
        """Forget a request."""
        self._tracked.pop(request.request_id, None)
        self._names.forget(request.request_id)
        lookup = self._lookups.pop(request.request_id, None)
        if lookup is not None:
            lookup.cancel()
        if name := self._announced.pop(request.request_id, ""):
            self._withdrawals.append(name)

    def _announce(self, request: Request) -> None:
        """Announce a request's chunks, once."""
        name = self._role.announces(request)
        if name and request.request_id not in self._announced:
            self._announced[request.request_id] = name
            self._announcements[name] = self._chunk_names(request, request.num_prompt_tokens)

    def _lookup(self, request: Request, computed_tokens: int) -> ChunkLookup | None:
        first = computed_tokens // self._cache.chunk_tokens
        lookup = self._lookups.get(request.request_id)
        if lookup is None or lookup.first_chunk != first:
            # At least one token of a prompt is computed: the first new one follows from it.
            names = self._chunk_names(request, request.num_tokens - 1)
            if len(names) <= first:
                return None
            wait = self._role.awaits(request)
            lookup = ChunkLookup(self._count_prefix, self._cache, names, first, wait)
            self._lookups[request.request_id] = lookup
        return lookup

    def _saves(self, tracked: _Tracked, computed: int, scheduled: int) -> tuple[Chunk, ...]:
        """The chunks to save: complete after this step, and not saved before.

        Speculative tokens are computed as well, but have no hashes.

        Args:
            tracked: the request.
            computed: tokens before this step: vLLM has the blocks that the window before them
                covers, and no earlier ones.
            scheduled: tokens of this step.
        """
        if not self._role.saves:
            return ()
        size = self._cache.chunk_tokens
        end = len(self._chunk_names(tracked.request, computed + scheduled))
        start = min(tracked.saved_chunks, end)
        tracked.saved_chunks = max(tracked.saved_chunks, end)
        return self._chunks(tracked, start * size, end * size, window_from=computed + 1)

    def _chunks(
        self, tracked: _Tracked, start_token: int, end_token: int, window_from: int = 0
    ) -> tuple[Chunk, ...]:
        """The chunks of the tokens from ``start_token`` on, the first of a block.

        Args:
            tracked: the request.
            start_token: the first token.
            end_token: the token behind the last chunk.
            window_from: chunks that end before it have no part of a group with a sliding window.
        """
        request, size = tracked.request, self._cache.chunk_tokens
        names = self._chunk_names(request, end_token)
        # Names of other prompts have parts that their events would have to name as well.
        is_plain = request.lora_request is None and not request.mm_features
        has_tokens = self._has_events and is_plain
        return tuple(
            Chunk(
                name=names[place],
                place=place,
                parts=self._parts(tracked, place, start_token, window_from),
                parent=names[place - 1] if place else None,
                tokens=tuple(request.all_token_ids[place * size : (place + 1) * size])
                if has_tokens
                else (),
                salt="" if place else request.cache_salt or "",
            )
            for place in range(start_token // size, len(names))
        )

    def _parts(
        self, tracked: _Tracked, place: int, start_token: int, window_from: int
    ) -> tuple[ChunkPart, ...]:
        """The blocks of each group for a chunk from ``start_token`` on."""
        end_token = (place + 1) * self._cache.chunk_tokens
        parts = []
        for group in self._cache.groups:
            if group.window_chunks and end_token < window_from:
                continue
            end, start = end_token // group.block_tokens, start_token // group.block_tokens
            begin = end - group.object_blocks
            if group.has_states and window_from:  # vLLM moves the request's own states
                if block := tracked.states.get((group.index, end_token)):
                    parts.append(ChunkPart(group.index, 0, (block,)))
                continue
            ids = tracked.block_ids[group.index][max(begin, start) : end]
            held = tuple(block for block in ids if block != _NULL_BLOCK)  # the last ones
            is_whole = len(held) == group.object_blocks
            if is_whole or (held and not window_from):
                parts.append(ChunkPart(group.index, end - begin - len(held), held))
        return tuple(parts)

    def _chunk_names(self, request: Request, tokens: int) -> list[ChunkName]:
        """The chunks that the first ``tokens`` complete; none if they may not be shared."""
        lora = request.lora_request
        if self._excluded.is_everything or (
            lora is not None and (lora.lora_name, lora.lora_path) in self._excluded.adapters
        ):
            return []
        return self._names.of(request, tokens)


def _name_of(request: Request) -> str:
    return str((request.kv_transfer_params or {}).get(REQUEST_PARAMETER) or "")
