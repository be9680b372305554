"""What a block is called: ``/kv/<tenant>/<model-digest>/<layout>/<layer-range>/<block-hash>``."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from innet.errors import KVError

KV_PREFIX: Final = "/kv"
"""What all names of blocks begin with."""

_TENANT_BYTES = 16
_LAYOUT = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class BlockFamily:
    """Blocks that could stand in for each other if their tokens were equal.

    Attributes:
        tenant: as :func:`tenant_component` gives it.
        model_digest: hexadecimal, of all that makes a block of the same tokens another one: the
            weights' identity, their type, the quantisation, the position encoding.
        layout: of the bytes in a block, such as ``bf16-kv-nhd``.
        first_layer: of the layers in a block.
        end_layer: the layer behind the last of them.

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
            KVError: a part cannot stand in a name.
        """
        for what, text in (("tenant", self.tenant), ("model digest", self.model_digest)):
            if not re.fullmatch(r"[0-9a-f]{2,128}", text):
                raise KVError(f"the {what} of a block is hexadecimal, in lower case; got {text!r}")
        if not _LAYOUT.fullmatch(self.layout):
            raise KVError(
                f"a layout has letters, digits, '-' and '_', 64 at most; got {self.layout!r}"
            )
        if not 0 <= self.first_layer < self.end_layer:
            raise KVError(f"there are no layers from {self.first_layer} to {self.end_layer}")

    @property
    def prefix(self) -> str:
        """What the names of the family's blocks have in common."""
        layers = f"{self.first_layer}-{self.end_layer - 1}"
        return f"{KV_PREFIX}/{self.tenant}/{self.model_digest}/{self.layout}/{layers}"

    def name(self, block_hash: bytes) -> str:
        """The name of the family's block with that hash."""
        return f"{self.prefix}/{block_hash.hex()}"


def tenant_component(tenant: str, salt: bytes) -> str:
    """How a tenant is called in names: the salt is known to the tenant's own workers alone.

    Whoever has no salt can name none of the tenant's blocks, and so learns from no cache whether
    the tenant has asked for a prompt.

    >>> tenant_component("acme", b"secret") == tenant_component("acme", b"other")
    False
    """
    # The lengths keep (tenant, salt) pairs apart that are equal when joined.
    text = tenant.encode()
    digest = hashlib.sha256(len(salt).to_bytes(8, "big") + salt + text)
    return digest.hexdigest()[: 2 * _TENANT_BYTES]
