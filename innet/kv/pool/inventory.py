"""The blocks of a member by model, and requests that concern many of them at once.

As other requests, these are the end of a name (:mod:`innet.kv.pool.requests`), from the verb on:

    list/<digests>/<hashes>/<age>/0
    purge/<digests>/<hashes>/<age>/<hold_ms>
    hold/<digests>/<hashes>/<age>/<lease_ms>

``<digests>`` and ``<hashes>`` are joined by ``.``, or ``-`` for all; ``<age>`` is the least age in
seconds. A member answers ``list`` with what it has, by model and layout; ``purge`` with what it has
dropped, after which it refuses such blocks for ``<hold_ms>``; ``hold`` with what is pinned for
``<lease_ms>``, 0: no longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter, ValidationError

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.network import Contents
from innet.kv.pool.store import LocalStore, Tier
from innet.kv.pool.waiting import now_s
from innet.validation_messages import at_most

MAX_DIGESTS: Final = 8
MAX_HASHES: Final = 8
"""Of one request, whose name has to fit into a packet of an Ethernet frame."""
MAX_NUMBER: Final = 10**9 - 1
LABEL_LAYOUT: Final = "label"
"""Layout of the block that describes a model digest (:mod:`innet.kv.labels`)."""
_ALL: Final = "-"
_HEAD: Final = 7
"""Components of a request's name before the verb, and the empty one before them."""
_DIGEST: Final = re.compile(r"[0-9a-f]{2,128}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_MOST_GROUPS: Final = 4096
_MOST_LABELS: Final = 64

Verb: TypeAlias = Literal["list", "purge", "hold"]


@dataclass(frozen=True, slots=True)
class BlockFilter:
    """Blocks of a tenant.

    Attributes:
        digests: of models, in the blocks' names; none: of all models.
        hashes: in the blocks' names; none: all.
        min_age_s: how long a member has had them, at least, in any of its tiers.
    """

    digests: frozenset[str] = frozenset()
    hashes: frozenset[bytes] = frozenset()
    min_age_s: int = 0

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: the age is out of range.
        """
        if not 0 <= self.min_age_s <= MAX_NUMBER:
            raise KVError(f"an age is from 0 to {MAX_NUMBER} s, not {self.min_age_s}")

    def has(self, key: BlockKey) -> bool:
        """Whether a block is among these, whatever its age."""
        digest = key.family.model_digest
        return (not self.digests or digest in self.digests) and (
            not self.hashes or key.block_hash in self.hashes
        )

    def parts(self) -> Iterator[BlockFilter]:
        """Filters that one request each has room for, which together are this one."""
        hashes = sorted(self.hashes)
        digests = sorted(self.digests)
        for some in _in_parts(digests, MAX_DIGESTS):
            for few in _in_parts(hashes, MAX_HASHES):
                yield BlockFilter(frozenset(some), frozenset(few), self.min_age_s)


def _in_parts(values: Sequence, size: int) -> Iterable[Sequence]:  # type: ignore[type-arg]
    return [values[start : start + size] for start in range(0, len(values), size)] or [()]


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """A request that concerns many blocks.

    Attributes:
        verb: what to do.
        blocks: with which.
        duration_ms: of the refusal behind a purge, or of a lease.
    """

    verb: Verb
    blocks: BlockFilter
    duration_ms: int = 0

    def action(self) -> str:
        """The end of the request's name."""
        digests = ".".join(sorted(self.blocks.digests)) or _ALL
        hashes = ".".join(each.hex() for each in sorted(self.blocks.hashes)) or _ALL
        return f"{self.verb}/{digests}/{hashes}/{self.blocks.min_age_s}/{self.duration_ms}"

    @classmethod
    def of_name(cls, name: str) -> BulkRequest | None:
        """The request of that name; ``None``: it is another one.

        Raises:
            KVError: it is one, and a part is invalid.
        """
        verb, *parts = name.split("/")[_HEAD:] or [""]
        if verb not in ("list", "purge", "hold"):
            return None
        match parts:
            case [digests, hashes, age, duration] if _NUMBER.fullmatch(age) and _NUMBER.fullmatch(
                duration
            ):
                found = _listed(digests, _DIGEST, MAX_DIGESTS)
                named = _listed(hashes, _HASH, MAX_HASHES)
                blocks = BlockFilter(found, frozenset(map(bytes.fromhex, named)), int(age))
                return cls(verb, blocks, int(duration))  # type: ignore[arg-type]
        raise KVError(f"invalid request {verb!r} for many blocks: {len(parts)} parts")


def _listed(text: str, pattern: re.Pattern[str], most: int) -> frozenset[str]:
    if text == _ALL:
        return frozenset()
    found = text.split(".", most)
    if len(found) > most or not all(map(pattern.fullmatch, found)):
        raise KVError("invalid list in a request for many blocks")
    return frozenset(found)


Count = Annotated[int, Field(ge=0, lt=1 << 62)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Label = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore")


class FamilyInventory(_Message):
    """Blocks of one model and layout at one member, or at several.

    Attributes:
        model_digest: in their names.
        layout: in their names.
        blocks: how many. A block that is in several tiers or stores counts once for each member.
        size_bytes: of all of them, as far as memory and disks count them.
        tiers: blocks in each tier: ``memory``, ``disk``, ``objects``.
        pinned: blocks that have a lease.
        oldest_s: how long the member has had the oldest.
        newest_s: the same for the newest.
        labels: hashes of blocks that describe the model, if they are such.
    """

    model_digest: str = Field(pattern="^[0-9a-f]{2,128}$")
    layout: str = Field(pattern="^[A-Za-z0-9_-]{1,64}$")
    blocks: Count = 0
    size_bytes: Count = 0
    tiers: Annotated[dict[Literal["memory", "disk", "objects"], Count], at_most(3)] = {}
    pinned: Count = 0
    oldest_s: Seconds = 0.0
    newest_s: Seconds = 1e9
    labels: Annotated[list[_Label], FailFast(), Field(max_length=_MOST_LABELS)] = []

    def add(self, other: FamilyInventory) -> None:
        """Add those of another member."""
        self.blocks += other.blocks
        self.size_bytes += other.size_bytes
        for tier, count in other.tiers.items():
            self.tiers[tier] = self.tiers.get(tier, 0) + count
        self.pinned += other.pinned
        self.oldest_s = max(self.oldest_s, other.oldest_s)
        self.newest_s = min(self.newest_s, other.newest_s)
        self.labels = sorted({*self.labels, *other.labels})[:_MOST_LABELS]


class BulkAnswer(_Message):
    """What a member has done, or has.

    Attributes:
        done: it has executed the request.
        cause: why not, in a few words.
        families: the blocks that it concerned.
    """

    done: bool
    cause: str = Field(default="", max_length=200)
    families: Annotated[list[FamilyInventory], FailFast(), Field(max_length=_MOST_GROUPS)] = []

    def encoded(self) -> Contents:
        """As JSON."""
        return np.frombuffer(self.model_dump_json().encode(), np.uint8)

    @classmethod
    def decode(cls, contents: Contents) -> BulkAnswer:
        """The answer with these contents; an unreadable one counts as a refusal."""
        try:
            return _ANSWER.validate_json(contents.tobytes())
        except ValidationError:
            return cls(done=False, cause="an unreadable answer")


_ANSWER: Final = TypeAdapter(BulkAnswer)
_TIERS: Final[Mapping[Tier, Literal["memory", "disk", "objects"]]] = {
    Tier.MEMORY: "memory",
    Tier.DISK: "disk",
    Tier.OBJECTS: "objects",
}


@dataclass
class Tally:
    """Counts blocks of a member by model and layout.

    Attributes:
        families: the counts.
        names: of the blocks that are counted, each once.
    """

    families: dict[tuple[str, str], FamilyInventory] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def count(self, key: BlockKey, store: LocalStore, age_s: float) -> None:
        """Count a block that is in a store."""
        name = key.name
        tier, entry = store.tier(name), store.tiers.entry(name)
        if name in self.names or tier is None or entry is None:
            return
        self.names.add(name)
        family = self._family(key)
        family.blocks += 1
        family.size_bytes += entry.size
        family.tiers[_TIERS[tier]] = family.tiers.get(_TIERS[tier], 0) + 1
        family.pinned += entry.pinned
        family.oldest_s = max(family.oldest_s, age_s)
        family.newest_s = min(family.newest_s, age_s)
        if family.layout == LABEL_LAYOUT:
            self.add_label(key)

    def add_label(self, key: BlockKey) -> None:
        """Add the hash of a label, wherever that is."""
        labels, digits = self._family(key).labels, key.block_hash.hex()
        if len(labels) < _MOST_LABELS and digits not in labels:
            labels.append(digits)

    def _family(self, key: BlockKey) -> FamilyInventory:
        digest, layout = group = key.family.model_digest, key.family.layout
        if group not in self.families:
            self.families[group] = FamilyInventory(model_digest=digest, layout=layout)
        return self.families[group]

    def answer(self) -> BulkAnswer:
        """The counts, as far as an answer has room."""
        return BulkAnswer(done=True, families=list(self.families.values())[:_MOST_GROUPS])


class Purges:
    """The purges of the last seconds: what belongs to them is not kept again.

    Copies that were on their way when their blocks were dropped would bring them back.
    """

    def __init__(self) -> None:
        self._until: list[tuple[float, BlockFilter]] = []

    def begin(self, blocks: BlockFilter, until_s: float) -> None:
        """Refuse blocks until a time, whatever their age."""
        self._until = [each for each in self._until if each[0] > now_s()]
        self._until.append((until_s, blocks))

    def refuse(self, name: str) -> bool:
        """Whether a block was purged just now."""
        if not self._until:
            return False
        self._until = [each for each in self._until if each[0] > now_s()]
        try:
            key = BlockKey.parse(name) if self._until else None
        except KVError:
            return False
        return key is not None and any(blocks.has(key) for _, blocks in self._until)
