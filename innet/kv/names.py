"""Names of blocks: ``/kv/<tenant>/<model-digest>/<layout>/<layer-range>/<block-hash>``.

Requests between members of a pool are names, too: see :mod:`innet.kv.pool.requests`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from innet.errors import KVError
from innet.kv.hash_chain import HASH_BYTES
from innet.node.messages import KV_PREFIX, tenant_prefix

NO_MODEL_DIGEST: Final = "00" * 32
"""Digest in names of blocks that no model computed."""

_TENANT_BYTES = 16
_HEXADECIMAL = re.compile(r"[0-9a-f]{2,128}")
_LAYOUT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LAYERS = re.compile(r"(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8})")
_HASH = re.compile(rf"[0-9a-f]{{{2 * HASH_BYTES}}}")
_BLOCK_COMPONENTS = 6
_SHOWN_CHARACTERS = 200
_MOST_FAMILIES = 256


@dataclass(frozen=True)
class BlockFamily:
    """Blocks that are equal if their tokens are equal.

    Attributes:
        tenant: from :func:`tenant_component`.
        model_digest: hexadecimal, of everything but the tokens that a block's bytes depend on: the
            weights' identity, their type, the quantisation, the position encoding.
        layout: of the bytes in a block, such as ``bf16-kv-nhd``.
        first_layer: of the layers in a block.
        end_layer: the layer after the last of them.

    Example:
        >>> family = BlockFamily("a1b2", "00ff", "bf16-kv-nhd", 0, 32)
        >>> family.name(bytes(32))[:34]
        '/kv/a1b2/00ff/bf16-kv-nhd/0-31/000'
    """

    tenant: str
    model_digest: str
    layout: str
    first_layer: int
    end_layer: int

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: a part cannot be a name component.
        """
        for what, text in (("tenant", self.tenant), ("model digest", self.model_digest)):
            if not _HEXADECIMAL.fullmatch(text):
                raise KVError(f"invalid {what} {text!r}, expected lower-case hexadecimal")
        if not _LAYOUT.fullmatch(self.layout):
            raise KVError(
                f"invalid layout {self.layout!r}, expected at most 64 letters, digits, '-' and '_'"
            )
        if not 0 <= self.first_layer < self.end_layer:
            raise KVError(f"invalid range of layers: {self.first_layer} to {self.end_layer}")

    @cached_property
    def prefix(self) -> str:
        """The prefix of the names of the family's blocks."""
        return f"{tenant_prefix(self.tenant)}/{self.model_digest}/{self.layout}/{self.layers}"

    @cached_property
    def layers(self) -> str:
        """The layers in a block, as in its name: ``0-31``."""
        return f"{self.first_layer}-{self.end_layer - 1}"

    @cached_property
    def kind(self) -> tuple[str, str, str]:
        """The tenant, model and layout, which all blocks of one request share."""
        return self.tenant, self.model_digest, self.layout

    def name(self, block_hash: bytes) -> str:
        """The name of a block of the family."""
        return f"{self.prefix}/{block_hash.hex()}"


@dataclass(frozen=True, slots=True)
class BlockKey:
    """A block: its family, and the hash that stands for its tokens.

    Attributes:
        family: the blocks with the same model, layout and layers.
        block_hash: 32 bytes.

    Example:
        >>> key = BlockKey(BlockFamily("a1b2", "00ff", "bf16-kv-nhd", 0, 32), bytes(32))
        >>> BlockKey.parse(key.name) == key
        True
    """

    family: BlockFamily
    block_hash: bytes

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: the hash has another length.
        """
        if len(self.block_hash) != HASH_BYTES:
            raise KVError(
                f"the hash of a block has {HASH_BYTES} bytes, not {len(self.block_hash)}; make it "
                "with SHA-256"
            )

    @property
    def name(self) -> str:
        """The block's name."""
        return self.family.name(self.block_hash)

    @classmethod
    def parse(cls, name: str) -> BlockKey:
        """The block of that name.

        Raises:
            KVError: it is not the name of a block.
        """
        parts = name.split("/")
        if len(parts) != 1 + _BLOCK_COMPONENTS or f"/{parts[1]}" != KV_PREFIX or parts[0]:
            raise KVError(f"{shown(name)} is not the name of a block")
        _, _, tenant, *parts_of_block = parts
        return cls.of_components(tenant, parts_of_block)

    @classmethod
    def of_components(cls, tenant: str, components: Sequence[str]) -> BlockKey:
        """The block of ``tenant`` with these last name components: digest, layout, layers, hash.

        Raises:
            KVError: they are not those of a block.
        """
        if len(components) != 4 or not _HASH.fullmatch(components[3]):
            raise KVError(f"no block's name ends in {shown('/'.join(components))}")
        return cls(_family_of(tenant, *components[:3]), bytes.fromhex(components[3]))


@lru_cache(maxsize=_MOST_FAMILIES)
def _family_of(tenant: str, model_digest: str, layout: str, layers: str) -> BlockFamily:
    """Cached, because a node sees the same few families again and again."""
    found = _LAYERS.fullmatch(layers)
    if found is None:
        raise KVError(f"invalid layers {shown(layers)} in a block's name, expected such as 0-31")
    first, last = map(int, found.groups())
    return BlockFamily(tenant, model_digest, layout, first, last + 1)


def shown(name: str) -> str:
    """A name for error messages, shortened if it is long."""
    cut = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}..."
    return repr(cut)


def tenant_component(tenant: str, salt: bytes) -> str:
    """The component that stands for a tenant in names; only the tenant's workers know the salt.

    Without the salt nobody can name the tenant's blocks, and so find out from caches which prompts
    the tenant requested.

    >>> tenant_component("acme", b"secret") == tenant_component("acme", b"other")
    False
    """
    # The length separates (tenant, salt) pairs whose concatenations are equal.
    text = tenant.encode()
    digest = hashlib.sha256(len(salt).to_bytes(8, "big") + salt + text)
    return digest.hexdigest()[: 2 * _TENANT_BYTES]
