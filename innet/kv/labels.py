"""Labels: blocks that say which model, adapter and settings a digest in names stands for.

An engine puts its label when it joins, and again when the pool's blocks are listed. So the blocks
of a pool can be listed and purged by the names of models, and an engine that will share none with
others of the same model says why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet.errors import KVError
from innet.kv.chunk_hash import chunk_hashes
from innet.kv.model import digest_of
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool import BlockPool
from innet.kv.pool.administration import BulkResult
from innet.kv.pool.announcements import ANNOUNCEMENT_LAYOUT
from innet.kv.pool.inventory import LABEL_LAYOUT, BlockFilter, FamilyInventory
from innet.printable import printable

MAX_LABEL_TEXT: Final = 200
_MOST_SETTINGS: Final = 64
_MOST_BYTES: Final = 64 << 10
_MOST_READS: Final = 32
"""Labels that are read at once: each that is gone takes its whole timeout."""
_READ_TIMEOUT_S: Final = 5.0

EVERYTHING: Final = BlockFilter()
_METADATA: Final = (LABEL_LAYOUT, ANNOUNCEMENT_LAYOUT)
_SHOWN_DIGITS: Final = 12
_LEAST_DIGITS: Final = 4

Text = Annotated[str, Field(max_length=MAX_LABEL_TEXT)]

_log = logging.getLogger(__name__)


class BlockLabel(BaseModel):
    """What a digest in blocks' names stands for.

    Attributes:
        engine: that puts the blocks: ``vllm``, ``sglang``, ``lmcache``.
        model: its name or path.
        weights: identity of the model's weights; empty: the name is trusted.
        adapter: name of a LoRA adapter; empty: the model alone.
        settings: of the engine, that decide with which others it shares blocks.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    engine: Text
    model: Text = ""
    weights: Text = ""
    adapter: Text = ""
    settings: dict[Text, Text] = Field(default={}, max_length=_MOST_SETTINGS)

    @classmethod
    def of(
        cls,
        engine: str,
        model: str,
        weights: str,
        settings: Mapping[str, object],
        adapter: str = "",
    ) -> BlockLabel:
        """A label with values that are cut to a label's length."""
        texts = {name: str(value)[:MAX_LABEL_TEXT] for name, value in settings.items()}
        cut = [text[:MAX_LABEL_TEXT] for text in (model, weights, adapter)]
        return cls(engine=engine, model=cut[0], weights=cut[1], adapter=cut[2], settings=texts)

    def is_same_model(self, other: BlockLabel) -> bool:
        """Whether a user expects engines with these labels to share blocks."""
        if self.engine != other.engine or self.adapter != other.adapter:
            return False
        return self.model == other.model or (bool(self.weights) and self.weights == other.weights)

    def differences(self, other: BlockLabel) -> list[str]:
        """The settings in which another engine's differ, with both values."""
        names = sorted({*self.settings, *other.settings})
        pairs = [
            (name, self.settings.get(name, ""), other.settings.get(name, "")) for name in names
        ]
        if self.weights != other.weights:
            pairs.insert(0, ("weights", self.weights, other.weights))
        return [
            f"{printable(name)} is {printable(own) or 'not set'} here and "
            f"{printable(theirs) or 'not set'} there"
            for name, own, theirs in pairs
            if own != theirs
        ]

    def encoded(self) -> bytes:
        """As JSON."""
        return self.model_dump_json().encode()

    def key(self, tenant: str, digest: str) -> BlockKey:
        """Its name."""
        return label_key(tenant, digest, digest_of([self.encoded()]))


def label_key(tenant: str, digest: str, label_hash: bytes) -> BlockKey:
    """The name of a label of a model digest."""
    return BlockKey(BlockFamily(tenant, digest, LABEL_LAYOUT, 0, 1), label_hash)


async def put_label(blocks: BlockPool, tenant: str, digest: str, label: BlockLabel) -> None:
    """Put a label, as a block that statistics do not count."""
    contents = np.frombuffer(label.encoded(), np.uint8)
    await blocks.put_label(label.key(tenant, digest), contents)


async def read_labels(
    blocks: BlockPool, tenant: str, families: Iterable[FamilyInventory]
) -> dict[str, list[BlockLabel]]:
    """The labels of model digests, as far as they are found and valid.

    Args:
        blocks: of the pool.
        tenant: its component in names.
        families: from an inventory.
    """
    turns = asyncio.Semaphore(_MOST_READS)

    async def read(digest: str, label_hash: str) -> BlockLabel | None:
        async with turns:
            key = label_key(tenant, digest, bytes.fromhex(label_hash))
            contents = await blocks.get_uncounted(key, _READ_TIMEOUT_S)
        if contents is None or contents.nbytes > _MOST_BYTES:
            return None
        try:
            return BlockLabel.model_validate_json(contents.tobytes())
        except ValidationError:
            return None

    named = [(family.model_digest, each) for family in families for each in family.labels]
    labels = await asyncio.gather(*(read(*each) for each in named))
    found: dict[str, list[BlockLabel]] = {}
    for (digest, _), label in zip(named, labels, strict=True):
        if label is not None:
            found.setdefault(digest, []).append(label)
    return found


@dataclass(frozen=True)
class PoolInventory:
    """The blocks of a pool, and what the digests in their names stand for.

    Attributes:
        result: the blocks of each process.
        labels: of each digest that has any.
    """

    result: BulkResult
    labels: Mapping[str, Sequence[BlockLabel]]

    def families(self) -> list[FamilyInventory]:
        """Blocks of keys and values, by model and layout: without labels and announcements."""
        found = [each for each in self.result.families() if each.layout not in _METADATA]
        return sorted(found, key=lambda each: (self.model(each.model_digest), each.layout))

    def label(self, digest: str) -> BlockLabel | None:
        """The first label of a digest."""
        labels = self.labels.get(digest, ())
        return labels[0] if labels else None

    def model(self, digest: str) -> str:
        """The model and the adapter of a digest, for people; the digest's first digits if it has no
        label."""
        label = self.label(digest)
        if label is None:
            return digest[:_SHOWN_DIGITS]
        name = printable(label.model) or digest[:_SHOWN_DIGITS]
        return f"{name} + {printable(label.adapter)}" if label.adapter else name

    def digests(self, model: str = "", adapter: str = "") -> frozenset[str]:
        """The digests that a user names.

        Args:
            model: its name or path as engines have it, the last part of that, or at least four of
                the first digits of a digest; empty: each. A model's adapters belong to it.
            adapter: its name; empty: each, and the model alone.

        Raises:
            KVError: there is none.
        """
        known = {family.model_digest for family in self.result.families()}
        found = frozenset(
            digest
            for digest in known
            if (not model or self._is_named(digest, model))
            and (
                not adapter or any(each.adapter == adapter for each in self.labels.get(digest, ()))
            )
        )
        if not found:
            what = " ".join(
                [f"model {model}"] * bool(model) + [f"adapter {adapter}"] * bool(adapter)
            )
            models = sorted({self.model(digest) for digest in known})
            raise KVError(f"the pool has no blocks of {what}; it has {', '.join(models) or 'none'}")
        return found

    def prompt_hashes(
        self, digests: Iterable[str], tokens: Sequence[int], salt: str = ""
    ) -> frozenset[bytes]:
        """The hashes in names of a prompt's blocks.

        Raises:
            KVError: the blocks of these digests are named otherwise, or the prompt has no whole
                chunk.
        """
        labels = [label for digest in digests for label in self.labels.get(digest, ())]
        sizes = {label.settings.get("chunk_tokens", "") for label in labels}
        found = {
            digest_of([each])
            for size in sizes
            if size.isdecimal() and 0 < int(size) <= len(tokens)
            for each in chunk_hashes(tokens, int(size), salt)
        }
        if not found:
            known = ", ".join(sorted(sizes - {""})) or "none"
            raise KVError(
                f"a prompt of {len(tokens)} tokens has no whole chunk of innet's connector for "
                f"vLLM (chunk_tokens there: {known}); other engines' blocks are purged by model, "
                "or by KVPool.purge(tokens)"
            )
        return frozenset(found)

    def _is_named(self, digest: str, model: str) -> bool:
        if len(model) >= _LEAST_DIGITS and digest.startswith(model):
            return True
        names = [label.model for label in self.labels.get(digest, ())]
        return any(model in (name, name.rstrip("/").rpartition("/")[2]) for name in names)


async def announce(
    blocks: BlockPool, tenant: str, digest: str, label: BlockLabel
) -> list[BlockLabel]:
    """Put an engine's label, and log with which others of its model it will share no blocks.

    Returns:
        The labels of these others.
    """
    try:
        await put_label(blocks, tenant, digest, label)
        inventory = await blocks.administration.inventory(EVERYTHING)
        labels = await read_labels(blocks, tenant, inventory.families())
    except KVError as error:  # the pool is closed, or its network has ended
        _log.info("this engine's settings are not compared with others': %s", error)
        return []
    others = [
        other
        for each in labels.values()
        for other in each
        if other != label and label.is_same_model(other) and label.differences(other)
    ]
    for other in others:
        _log.warning(
            "the pool has blocks of %s that this engine will never find, and others will not find "
            "its own: %s. Give all engines that should share blocks the same settings",
            printable(label.model) or "this model",
            "; ".join(label.differences(other)),
        )
    return others
