"""Which members have the longest prefixes of a prompt, learned from their events.

Blocks are found by their tokens and not by hashes, so the index follows engines and pools whose
hashes differ. A block's key is a hash of its tokens and of the key before it, valid in this process
alone.

A look-up probes one block after the other: a block may be held although the one before it was
evicted, so a binary search for the end of the prefix would be wrong.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from innet._native import _core
from innet.errors import KVError
from innet.kv.events.log import single_blocks
from innet.kv.events.wire import GPU, MEMORY, AllCleared, BlocksRemoved, BlocksStored, Event, Extra
from innet.kv.hash_chain import TokenIds

_MOST_UNHELD: Final = 1 << 17
"""Limit of blocks without a holder whose keys are kept: followers need them, or they return."""
_MOST_WAITING: Final = 1 << 17
"""Limit of blocks whose predecessor is not known."""
_GPU, _MEMORY, _ANYWHERE = 1, 2, 4
_LEVEL_BITS: Final = 3
_LEVELS: Final = {GPU: _GPU | _MEMORY | _ANYWHERE, MEMORY: _MEMORY | _ANYWHERE}
"""Levels that a copy on a medium has. A copy on a medium that is not listed has ``_ANYWHERE``."""
_HASH_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Change:
    """A block was added to a member's medium or removed from it, or its tokens became known.

    Attributes:
        block: with its tokens where they are known.
        copies: 1 if it was added, -1 if it was removed, 0 if only its tokens are new.
    """

    block: BlocksStored
    copies: int


class Holding(NamedTuple):
    """The part of a prompt's blocks that a member has.

    Attributes:
        member: its name.
        tokens: of the longest prefix that it has, on any medium.
        memory_tokens: the same in memory, its accelerator's included.
        gpu_tokens: the same on its accelerator.
        blocks: of the prefix that all members together have.
    """

    member: str
    tokens: int
    memory_tokens: int
    gpu_tokens: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Location:
    """The members that have a prompt's prefix.

    Attributes:
        tokens: of the longest prefix of which each block has a holder.
        block_tokens: tokens of a block; 0: there are none.
        holdings: of each member that has a block of it, the longest prefix first; of chosen
            members, in their order.
    """

    tokens: int
    block_tokens: int
    holdings: tuple[Holding, ...]


@dataclass(slots=True)
class _Model:
    """A model's blocks.

    Attributes:
        held: media by hash and member.
        keys: by hash.
        hashes: by key; several publishers may hash the same tokens differently.
        holders: members by key, three bits each: on its accelerator, in memory, anywhere.
        unheld: hashes with a key and without a holder, the oldest first.
        waiting: blocks by the hash of their predecessor, which is not known yet, and their own.
        waiting_blocks: how many these are.
        sizes: tokens of blocks, and the adapter, of all blocks so far.
        windows: groups of layers with sliding windows: their blocks are no prefix.
    """

    held: defaultdict[str, dict[int, set[str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    keys: dict[int, int] = field(default_factory=dict)
    hashes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    holders: dict[int, int] = field(default_factory=dict)
    unheld: OrderedDict[int, None] = field(default_factory=OrderedDict)
    waiting: OrderedDict[int, dict[int, BlocksStored]] = field(default_factory=OrderedDict)
    waiting_blocks: int = 0
    sizes: set[tuple[int, str | None]] = field(default_factory=set)
    windows: set[int] = field(default_factory=set)

    def wait(self, block: BlocksStored, parent: int) -> None:
        """Keep a block until its predecessor is known; beyond a limit the oldest are dropped."""
        followers = self.waiting.setdefault(parent, {})
        self.waiting_blocks += block.hashes[0] not in followers
        followers[block.hashes[0]] = block
        while self.waiting_blocks > _MOST_WAITING:
            self.pop_waiting(next(iter(self.waiting)))

    def pop_waiting(self, parent: int) -> list[BlocksStored]:
        """Remove and return the blocks that wait for a predecessor."""
        followers = self.waiting.pop(parent, {})
        self.waiting_blocks -= len(followers)
        return list(followers.values())


class PrefixIndex:
    """The blocks of all members, by model."""

    def __init__(self) -> None:
        self._models: defaultdict[str, _Model] = defaultdict(_Model)
        self._shifts: dict[str, int] = {}
        """Of each member's bits in :attr:`_Model.holders`."""

    @property
    def models(self) -> list[str]:
        """The models that had blocks."""
        return list(self._models)

    @property
    def members(self) -> list[str]:
        """All members so far."""
        return list(self._shifts)

    def blocks(self, member: str) -> int:
        """How many blocks a member has."""
        return sum(len(model.held.get(member, ())) for model in self._models.values())

    def apply(self, member: str, model: str, events: Iterable[Event]) -> list[Change]:
        """Apply events of a member; return what they changed."""
        self._shifts.setdefault(member, _LEVEL_BITS * len(self._shifts))
        changes: list[Change] = []
        of_model = self._models[model]
        for event in events:
            match event:
                case BlocksStored() if event.window:
                    of_model.windows.add(event.group)
                case BlocksRemoved() if event.group in of_model.windows:
                    continue
                case BlocksStored():
                    for block in single_blocks(event):
                        self._store(of_model, member, block, changes)
                case BlocksRemoved():
                    for each in event.hashes:
                        self._remove(of_model, member, each, event.medium, changes)
                case AllCleared():
                    for each, media in list(of_model.held[member].items()):
                        for medium in list(media):
                            self._remove(of_model, member, each, medium, changes)
        if not model and not any(of_model.held.values()):
            del self._models[model]  # replays without topics are of a model that has a name later
        return changes

    def forget(self, member: str) -> dict[str, list[Change]]:
        """Remove a member's blocks; return what that changed, by model."""
        return {model: self.apply(member, model, [AllCleared()]) for model in self.models}

    def locate(
        self,
        model: str,
        tokens: TokenIds,
        *,
        members: Sequence[str] | None = None,
        salt: str = "",
        lora: str | None = None,
    ) -> Location:
        """The members that have the longest prefixes of a prompt.

        Args:
            model: as in the topics of events.
            tokens: of the prompt.
            members: only these, with or without blocks; by default all members with a block.
            salt: of the prompt, if it has one.
            lora: name of the adapter.

        Raises:
            KVError: a token is no number from 0 to 2^32 - 1.
        """
        of_model = self._models.get(model)
        sizes = () if of_model is None else [size for size, name in of_model.sizes if name == lora]
        packed = _packed(tokens)
        extra = _extra_hash(((salt,),) if salt else ())
        longest: _Prefix | None = None
        for size in sizes:
            assert of_model is not None
            root = _root(size, lora)
            runs = _core.prefix_runs(root, packed, 4 * size, extra, of_model.holders)
            prefix = _Prefix(size, runs)
            if prefix.tokens > (longest.tokens if longest else 0):
                longest = prefix
        if longest is None:
            return Location(0, 0, tuple(Holding(each, 0, 0, 0, 0) for each in members or ()))
        return longest.location(self._shifts, members)

    def _store(
        self, model: _Model, member: str, block: BlocksStored, changes: list[Change]
    ) -> None:
        (each,) = block.hashes
        media = model.held[member].setdefault(each, set())
        is_new = block.medium not in media
        media.add(block.medium)
        is_described = each not in model.keys and bool(block.tokens)
        if is_described:
            _resolve(model, block, self._shifts)
        elif is_new and each in model.keys:
            _set_holders(model, each, self._shifts)
        if is_new or is_described:
            changes.append(Change(block, int(is_new)))

    def _remove(
        self,
        model: _Model,
        member: str,
        each: int,
        medium: str | None,
        changes: list[Change],
    ) -> None:
        media = model.held[member].get(each)
        if media is None or medium not in media:
            return
        media.remove(medium)
        if not media:
            del model.held[member][each]
        if each in model.keys:
            _set_holders(model, each, self._shifts)
        changes.append(Change(BlocksStored((each,), medium=medium), -1))


def _resolve(model: _Model, first: BlocksStored, shifts: Mapping[str, int]) -> None:
    """Assign its key to a block, and theirs to the blocks that waited for it."""
    todo = [first]
    while todo:
        block = todo.pop()
        (each,) = block.hashes
        if block.parent is None:
            parent = _root(block.block_tokens, block.lora)
        elif block.parent in model.keys:
            parent = model.keys[block.parent]
        else:
            model.wait(block, block.parent)
            continue
        model.sizes.add((block.block_tokens, block.lora))
        key = _core.block_key(parent, _packed(block.tokens), _extra_hash(block.extra))
        model.keys[each] = key
        model.hashes[key] = (*model.hashes.get(key, ()), each)
        _set_holders(model, each, shifts)
        todo += model.pop_waiting(each)


def _set_holders(model: _Model, each: int, shifts: Mapping[str, int]) -> None:
    """Update the holders of a block whose key is known."""
    key = model.keys[each]
    holders = 0
    is_held = False
    for same in model.hashes[key]:
        for member, held in model.held.items():
            for medium in held.get(same, ()):
                is_held |= same == each
                holders |= _LEVELS.get(medium or GPU, _ANYWHERE) << shifts[member]
    if holders:
        model.holders[key] = holders
    else:
        model.holders.pop(key, None)
    model.unheld.pop(each, None)
    if not is_held:
        model.unheld[each] = None
        if len(model.unheld) > _MOST_UNHELD:
            _forget_key(model, next(iter(model.unheld)))


def _forget_key(model: _Model, each: int) -> None:
    del model.unheld[each]
    key = model.keys.pop(each)
    left = tuple(same for same in model.hashes.pop(key) if same != each)
    if left:
        model.hashes[key] = left


class _Prefix:
    """A prompt's first blocks, up to the first that has no holder.

    Attributes:
        tokens: of these blocks.
    """

    def __init__(self, size: int, runs: Sequence[tuple[int, int]]) -> None:
        """``runs``: holders, and how many blocks that follow each other have them."""
        self._size = size
        self._runs = runs
        self.tokens = size * sum(blocks for _, blocks in runs)

    def location(self, shifts: Mapping[str, int], members: Sequence[str] | None) -> Location:
        """The result; of all members with a block, or of the chosen ones."""
        some = 0
        for held, _ in self._runs:
            some |= held
        if members is None:
            there = [(name, shift) for name, shift in shifts.items() if some >> shift & _ANYWHERE]
            holdings = [self._holding(*each) for each in there]
            holdings.sort(key=lambda each: (-each.tokens, -each.memory_tokens, each.member))
        else:
            holdings = [
                self._holding(member, shift)
                if (shift := shifts.get(member)) is not None and some >> shift & _ANYWHERE
                else Holding(member, 0, 0, 0, 0)
                for member in members
            ]
        return Location(self.tokens, self._size, tuple(holdings))

    def _holding(self, member: str, shift: int) -> Holding:
        gpu = memory = anywhere = held = 0
        prefix = _GPU | _MEMORY | _ANYWHERE
        for holders, blocks in self._runs:
            levels = holders >> shift
            prefix &= levels
            if prefix & _GPU:
                gpu += blocks
            if prefix & _MEMORY:
                memory += blocks
            if prefix & _ANYWHERE:
                anywhere += blocks
            if levels & _ANYWHERE:
                held += blocks
        size = self._size
        return Holding(member, size * anywhere, size * memory, size * gpu, held)


def _root(size: int, lora: str | None) -> int:
    return hash((size, lora)) & _HASH_MASK


def _extra_hash(extra: tuple[Extra | None, ...]) -> int:
    return hash(extra) & _HASH_MASK if extra and extra[0] is not None else 0


def _packed(tokens: TokenIds) -> bytes:
    try:
        if isinstance(tokens, np.ndarray):
            if tokens.dtype == np.uint32 and tokens.ndim == 1:
                return tokens.tobytes()
            tokens = tokens.astype(np.int64, casting="safe").tolist()
        return array("I", tokens).tobytes()
    except (OverflowError, ValueError, TypeError) as error:
        raise KVError(
            f"invalid token ids, expected integers from 0 to 2^32 - 1 in one dimension: {error}"
        ) from error
