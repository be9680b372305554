"""A member's blocks as events: complete blocks with their medium and, if known, their tokens."""

from __future__ import annotations

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from innet.errors import KVError
from innet.kv.events.log import EventLog
from innet.kv.events.wire import DISK, MEMORY, AllCleared, BlocksRemoved, BlocksStored, event_hash
from innet.kv.hash_chain import TokenIds
from innet.kv.layout import group_of
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool.announcements import ANNOUNCEMENT_LAYOUT
from innet.kv.pool.inventory import LABEL_LAYOUT
from innet.kv.pool.store import Tier

_MOST_DESCRIBED: Final = 1 << 16
"""Blocks whose tokens are known; about 50 MiB at 16 tokens a block."""
_DIGEST_CHARACTERS: Final = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Described:
    """A block's place in its prompt.

    Attributes:
        parent: hash of the block before; ``None`` for the first.
        tokens: of the block.
        salt: of a prompt's first block.
    """

    parent: bytes | None
    tokens: tuple[int, ...]
    salt: str


@dataclass(slots=True)
class _Block:
    """A block that this node has, whole or in part.

    Attributes:
        parts: the tier and the end of each range of layers, by store and first layer.
        medium: on which it was published; ``None``: it was not.
        has_tokens: whether it was published with them.
        follows: the block before it, while that was not published here.
        is_rooted: whether it was published behind all blocks before it.
    """

    parts: dict[tuple[int, int], tuple[Tier, int]]
    medium: str | None = None
    has_tokens: bool = False
    follows: _Place | None = None
    is_rooted: bool = False


_Place = tuple[BlockFamily, bytes]
"""A block in all of its layers."""


class BlockEvents:
    """The events of one member's blocks, a stream for each model.

    A block is published when this node has all of its layers, on the slowest of their media. Its
    hash is the last 64 bits of the hash in its name. Members that only keep blocks for others do
    not know their tokens, and publish hashes alone, as vLLM does for its offloading tiers.

    Consumers may leave out blocks whose predecessor they do not know (llm-d's) or take them for
    blocks without a salt (Dynamo's). So blocks that came before their predecessor are removed and
    stored again behind it.

    Attributes:
        member: the node.
        on_pending: called when there are events to publish.
    """

    def __init__(self, member: str, model: str = "") -> None:
        """
        Args:
            member: the node.
            model: its name in topics; blocks of a second model are then left out. By default each
                model has a stream under its digest.
        """
        self.member = member
        self.on_pending: Callable[[], None] = lambda: None
        self._model = model
        self._logs: dict[str, EventLog] = {}
        self._blocks: dict[_Place, _Block] = {}
        self._ends: dict[BlockFamily, int] = {}
        self._described: OrderedDict[_Place, _Described] = OrderedDict()
        self._followers: defaultdict[_Place, set[_Place]] = defaultdict(set)
        self._left_out: set[str] = set()

    @property
    def streams(self) -> dict[bytes, EventLog]:
        """The streams by topic, as llm-d expects it: ``kv@<member>@<model>``."""
        return {
            f"kv@{self.member}@{self._model or digest[:_DIGEST_CHARACTERS]}".encode(): log
            for digest, log in self._logs.items()
        }

    def describe(
        self,
        family: BlockFamily,
        hashes: Sequence[bytes],
        tokens: TokenIds,
        block_tokens: int,
        salt: str = "",
    ) -> None:
        """Record the tokens of a prompt's first blocks.

        Args:
            family: of any range of the blocks' layers.
            hashes: of the blocks, from the prompt's first on.
            tokens: of the prompt, at least those of the blocks.
            block_tokens: of each block.
            salt: of the prompt.
        """
        ids = [int(token) for token in tokens[: len(hashes) * block_tokens]]
        parent: bytes | None = None
        for place, each in enumerate(hashes):
            piece = tuple(ids[place * block_tokens : (place + 1) * block_tokens])
            self.describe_block(BlockKey(family, each), parent, piece, "" if place else salt)
            parent = each

    def describe_block(
        self, block: BlockKey, parent: bytes | None, tokens: tuple[int, ...], salt: str = ""
    ) -> None:
        """Record the tokens of a block.

        Args:
            block: with any range of its layers.
            parent: hash of the block before; ``None`` for a prompt's first.
            tokens: of the block.
            salt: of the prompt, with its first block.
        """
        key = _model(block.family), block.block_hash
        if key not in self._described:
            self._described[key] = _Described(parent, tokens, salt)
            here = self._blocks.get(key)
            if here is not None and not here.has_tokens:
                self._publish(key, here)
        self._described.move_to_end(key)
        if len(self._described) > _MOST_DESCRIBED:
            self._described.popitem(last=False)

    def on_tier(self, store: int, name: str, tier: Tier | None) -> None:
        """A block's tier in one of the node's stores may have changed; ``None``: it is gone."""
        try:
            key = BlockKey.parse(name)
        except KVError:
            return
        if key.family.layout in (ANNOUNCEMENT_LAYOUT, LABEL_LAYOUT):
            return
        family, model = key.family, _model(key.family)
        place = model, key.block_hash
        block = self._blocks.get(place)
        part = store, family.first_layer
        if tier is not None:
            block = self._blocks.setdefault(place, _Block({}))
            block.parts[part] = tier, family.end_layer
            self._ends[model] = max(self._ends.get(model, 0), family.end_layer)
        elif block is not None:
            block.parts.pop(part, None)
        if block is not None:
            self._publish(place, block)
            if not block.parts:
                del self._blocks[place]

    def clear(self) -> None:
        """Clear all blocks: this node leaves."""
        self._blocks.clear()
        self._followers.clear()
        for log in self._logs.values():
            log.add(AllCleared())
        self.on_pending()

    def _publish(self, key: _Place, block: _Block) -> None:
        model, _ = key
        medium, before = self._medium(model, block), block.medium
        described = self._described.get(key)
        has_news = medium is not None and described is not None and not block.has_tokens
        if medium == before and not has_news:
            return
        log = self._log_of(model.model_digest)
        if log is None:
            return
        block.medium = medium
        again: list[_Place] = []
        if medium is not None and described is not None:
            # A block that only changes its medium is stored behind its predecessor, too.
            again = self._follow(key, block, described.parent)
        for place in (key, *again) if medium == before else again:
            log.add(self._removed(place, self._blocks[place].medium))
        if medium is not None:
            for place in (key, *again):
                log.add(self._stored(place, self._blocks[place]))
        if before not in (None, medium):
            log.add(self._removed(key, before))
        if medium is None:
            self._unfollow(key, block)
        self.on_pending()

    def _follow(self, key: _Place, block: _Block, parent: bytes | None) -> list[_Place]:
        """Record the block's predecessor; return the published blocks to store again behind it."""
        block.has_tokens = True
        if parent is not None:
            before = key[0], parent
            predecessor = self._blocks.get(before)
            if predecessor is None or not predecessor.is_rooted:
                block.follows, block.is_rooted = before, False
                self._followers[before].add(key)
                return []
        todo, again = [key], []
        while todo:
            place = todo.pop()
            self._blocks[place].is_rooted = True
            for each in self._followers.pop(place, ()):
                self._blocks[each].follows = None
                todo.append(each)
                again.append(each)
        return again

    def _unfollow(self, key: _Place, block: _Block) -> None:
        """Forget the predecessor of a block that is no longer published."""
        block.has_tokens = block.is_rooted = False
        if block.follows is not None:
            self._followers[block.follows].discard(key)
            if not self._followers[block.follows]:
                del self._followers[block.follows]
            block.follows = None

    def _stored(self, key: _Place, block: _Block) -> BlocksStored:
        group, window = group_of(key[0].layout)
        bare = BlocksStored((event_hash(key[1]),), medium=block.medium, group=group, window=window)
        described = self._described.get(key)
        if described is None:
            return bare
        return replace(
            bare,
            parent=None if described.parent is None else event_hash(described.parent),
            tokens=described.tokens,
            block_tokens=len(described.tokens),
            extra=((described.salt,),) if described.salt else (),
        )

    def _removed(self, key: _Place, medium: str | None) -> BlocksRemoved:
        return BlocksRemoved((event_hash(key[1]),), medium, group_of(key[0].layout)[0])

    def _medium(self, model: BlockFamily, block: _Block) -> str | None:
        """The slowest medium of the block's layers; ``None``: some layers are missing."""
        fastest: dict[int, tuple[bool, int]] = {}
        for (_, first), (tier, end) in block.parts.items():
            part = tier is not Tier.MEMORY, end
            fastest[first] = min(fastest.get(first, part), part)
        layer = 0
        while layer in fastest:
            layer = fastest[layer][1]
        if layer < self._ends[model]:
            return None
        return DISK if any(on_disk for on_disk, _ in fastest.values()) else MEMORY

    def _log_of(self, digest: str) -> EventLog | None:
        log = self._logs.get(digest)
        if log is None and self._model and self._logs:
            if digest not in self._left_out:
                self._left_out.add(digest)
                _log.warning(
                    "the events of %s are of the model %s; blocks of another one (%s) are left "
                    "out: give each model a tenant of its own, or omit model_name",
                    self.member, self._model, digest[:_DIGEST_CHARACTERS],
                )  # fmt: skip
            return None
        return self._logs.setdefault(digest, EventLog()) if log is None else log


@lru_cache
def _model(family: BlockFamily) -> BlockFamily:
    """Stands for all ranges of layers of a model's blocks."""
    return BlockFamily(family.tenant, family.model_digest, family.layout, 0, 1)
