"""The search for a prompt's longest prefix in the pool."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from innet.kv.adapters.lookups import CountPrefix, Wait
from innet.kv.adapters.vllm.cache_identity import CacheIdentity
from innet.kv.adapters.vllm.chunk_names import ChunkName

_log = logging.getLogger(__name__)

_EXACT_MISSES: Final = 4
"""After this many incomplete windows the search takes larger steps, because a request waits."""


class ChunkLookup:
    """A prompt's first chunks in the pool.

    Groups without a sliding window need all chunks; groups with one need the chunks that the window
    before the end of the prefix covers. So the first lookup counts chunks of the former; then
    windows of the latter are looked up, from that end back to the first that is complete. After
    several incomplete ones each step is a quarter of what is left: a long prompt without any window
    takes few lookups, and at least three quarters of a prefix are found.

    Attributes:
        first_chunk: the first chunk that vLLM does not have itself.
    """

    def __init__(
        self,
        count_prefix: CountPrefix,
        cache: CacheIdentity,
        names: Sequence[ChunkName],
        first_chunk: int,
        wait: Wait | None,
    ) -> None:
        """
        Args:
            count_prefix: looks objects up.
            cache: the engine's.
            names: of all chunks of the prompt that could be loaded.
            first_chunk: the first that vLLM does not have itself.
            wait: for the producer that announces them, if there is one.
        """
        self.first_chunk = first_chunk
        self._count_prefix = count_prefix
        self._cache = cache
        self._names = names
        self._wait = wait
        self._end = len(names)
        self._misses = 0
        self._window: list[int] | None = None
        keys = [key for each in names[first_chunk:] for key in cache.dense_keys(each)]
        self._per_chunk = len(keys) // max(1, len(names) - first_chunk)
        self._counting: Future[int] | None = None
        if keys:
            self._counting = count_prefix(keys, wait)
        else:
            self._look_at_window()

    def end_chunk(self) -> int | None:
        """The chunk behind the longest prefix; ``None``: not yet known."""
        while self._counting is not None:
            if not self._counting.done():
                return None
            found = _result_of(self._counting)
            if self._window is None:
                self._end = self.first_chunk + found // self._per_chunk
            elif found < len(self._window):
                self._go_back(self._window[found])
            else:
                break
            self._look_at_window()
        self._counting = None
        return self._end

    def cancel(self) -> None:
        """End the search."""
        if self._counting is not None:
            self._counting.cancel()

    def _go_back(self, missing: int) -> None:
        """End the prefix at or before a missing chunk, which the window of a longer one covers."""
        self._misses += 1
        left = missing - self.first_chunk if self._misses > _EXACT_MISSES else 0
        self._end = missing - left // 4

    def _look_at_window(self) -> None:
        """Look up the chunks in the window before the current end, the last chunk first."""
        self._window, keys = [], []
        for place in range(self._end - 1, self.first_chunk - 1, -1):
            needed = self._cache.window_keys(self._names[place], behind=self._end - place)
            if not needed:
                break
            self._window += [place] * len(needed)
            keys += needed
        self._counting = self._count_prefix(keys, self._wait) if keys else None


def _result_of(counting: Future[int]) -> int:
    if counting.cancelled():
        return 0
    if error := counting.exception():
        _log.warning("looking up a prompt in the pool failed: %s", error)
        return 0
    return counting.result()
