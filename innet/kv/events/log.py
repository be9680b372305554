"""A stream of events: numbered batches, the last of which can be replayed."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from innet.kv.events.wire import (
    AllCleared,
    Batch,
    BlocksRemoved,
    BlocksStored,
    Event,
    decode,
    encode,
)

DEFAULT_BUFFER_BATCHES: Final = 10_000
_MOST_BUFFER_BYTES: Final = 64 << 20

Numbered = tuple[int, bytes]
"""A batch's number, and its payload."""


class EventLog:
    """Events of one publisher and one model.

    Batches are numbered from 0. The first event clears all blocks, because a restarted publisher
    begins again with number 0. The last batches are kept as they were sent; earlier ones are folded
    into the blocks that were stored after them. So a replay gives the whole state also to a
    consumer that begins late, or that was away for longer than the buffer lasts.
    """

    def __init__(self, buffer_batches: int = DEFAULT_BUFFER_BATCHES) -> None:
        """``buffer_batches``: kept for replays, unless they are too large."""
        self._most = buffer_batches
        self._pending: list[Event] = [AllCleared()]
        self._sent: deque[Numbered] = deque()
        self._sent_bytes = 0
        self._next = 0
        self._before: dict[tuple[int, int, str | None], BlocksStored] = {}
        self._before_s = 0.0

    @property
    def has_pending(self) -> bool:
        """Whether there are events for the next batch."""
        return bool(self._pending)

    def add(self, event: Event) -> None:
        """Add an event to the next batch."""
        if isinstance(event, AllCleared):
            self._pending.clear()  # nothing before it matters
        self._pending.append(event)

    def cut(self, time_s: float) -> Numbered | None:
        """The next batch, if there are events.

        Blocks that follow each other become one event. A block is stored after its predecessor,
        because some consumers (llm-d's) leave out blocks whose predecessor they do not know.
        """
        if not self._pending:
            return None
        events = tuple(_arranged(self._pending))
        self._pending.clear()
        numbered = self._next, encode(Batch(time_s, events))
        self._next += 1
        self._sent.append(numbered)
        self._sent_bytes += len(numbered[1])
        while len(self._sent) > self._most or self._sent_bytes > _MOST_BUFFER_BYTES:
            _, payload = self._sent.popleft()
            self._sent_bytes -= len(payload)
            self._apply(decode(payload))
        return numbered

    def since(self, number: int) -> list[Numbered]:
        """The batches from ``number`` on.

        One batch replaces those that are no longer kept: it has the number and the time of the last
        of them, clears all blocks, and stores the blocks that were there after it.
        """
        first = self._next - len(self._sent)
        sent = [(each, payload) for each, payload in self._sent if each >= number]
        if number >= first:
            return sent
        stored = _arranged([AllCleared(), *self._before.values()])
        state = Batch(self._before_s, tuple(stored))
        return [(first - 1, encode(state)), *sent]

    def _apply(self, batch: Batch) -> None:
        self._before_s = batch.time_s
        for event in batch.events:
            match event:
                case BlocksStored():
                    for block in single_blocks(event):
                        self._before[block.hashes[0], block.group, block.medium] = block
                case BlocksRemoved():
                    for each in event.hashes:
                        self._before.pop((each, event.group, event.medium), None)
                case AllCleared():
                    self._before.clear()


def _arranged(events: Iterable[Event]) -> Iterator[Event]:
    """The same changes in fewer events, with predecessors before their followers."""
    for _, part in groupby(events, type):
        same = list(part)
        stored = [each for each in same if isinstance(each, BlocksStored)]
        yield from _runs(_predecessors_first(stored))
        removed = [each for each in same if isinstance(each, BlocksRemoved)]
        for _, alike in groupby(removed, lambda each: (each.medium, each.group)):
            first, *rest = alike
            hashes = itertools.chain(first.hashes, *(each.hashes for each in rest))
            yield replace(first, hashes=tuple(hashes))
        yield from (each for each in same if isinstance(each, AllCleared))


def _predecessors_first(stored: Sequence[BlocksStored]) -> Iterator[BlocksStored]:
    def place(event: BlocksStored, block: int | None) -> tuple[int, str | None, int | None]:
        return event.group, event.medium, block

    described = {place(each, block) for each in stored if each.tokens for block in each.hashes}
    behind = {(group, block) for group, _, block in described}
    followers: defaultdict[tuple[int, int | None], list[BlocksStored]] = defaultdict(list)
    todo = []
    for event in reversed(stored):
        if event.tokens and (event.group, event.parent) in behind:
            followers[event.group, event.parent].append(event)
        elif event.tokens or place(event, event.hashes[0]) not in described:
            todo.append(event)
    while todo or followers:
        todo = todo or followers.popitem()[1]  # of invalid blocks that precede each other
        event = todo.pop()
        yield event
        for block in event.hashes:
            todo += followers.pop((event.group, block), [])


def _runs(stored: Iterable[BlocksStored]) -> Iterator[BlocksStored]:
    run: _Run | None = None
    for event in stored:
        if run is not None and run.extend(event):
            continue
        if run is not None:
            yield run.event()
        run = _Run(event)
    if run is not None:
        yield run.event()


class _Run:
    """Stored blocks of the next batch that follow each other."""

    def __init__(self, first: BlocksStored) -> None:
        self._first = first
        self._hashes = [*first.hashes]
        self._tokens = [*first.tokens]
        self._extra = [*first.extra] or [None] * len(first.hashes)

    def extend(self, event: BlocksStored) -> bool:
        """Append blocks, if they follow."""
        first = self._first
        if (
            _same_for_all(event) != _same_for_all(first)
            or not event.tokens
            or event.parent != self._hashes[-1]
        ):
            return False
        self._hashes += event.hashes
        self._tokens += event.tokens
        self._extra += event.extra or [None] * len(event.hashes)
        return True

    def event(self) -> BlocksStored:
        """All of them."""
        extra = tuple(self._extra) if any(each is not None for each in self._extra) else ()
        return replace(
            self._first, hashes=tuple(self._hashes), tokens=tuple(self._tokens), extra=extra
        )


def _same_for_all(event: BlocksStored) -> tuple[object, ...]:
    return event.block_tokens, event.medium, event.lora, event.group, event.window


def single_blocks(event: BlocksStored) -> list[BlocksStored]:
    """An event for each block.

    >>> [(b.hashes, b.parent, b.tokens) for b in single_blocks(BlocksStored((5, 6), 4, (1, 2), 1))]
    [((5,), 4, (1,)), ((6,), 5, (2,))]
    """
    parents = (event.parent, *event.hashes) if event.tokens else (None,) * len(event.hashes)
    size = event.block_tokens
    return [
        replace(
            event,
            hashes=(each,),
            parent=parents[place],
            tokens=event.tokens[place * size : (place + 1) * size],
            extra=event.extra[place : place + 1],
        )
        for place, each in enumerate(event.hashes)
    ]
