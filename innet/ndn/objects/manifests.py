"""Manifests of an object that was signed once: fetched as they are needed.

Their form is that of docs/protocol.md, "Manifests": below ``<object>/32=manifest``, the root signed
by a key, everything else vouched for by the digest in the manifest above it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from innet._native import _core
from innet.errors import MalformedPacket, SecurityError
from innet.names import Name, with_digest, with_keyword, with_segment
from innet.ndn.objects.believed import fetch_believed
from innet.ndn.objects.publication import MANIFEST
from innet.security.validation import Validator

if TYPE_CHECKING:
    from innet.ndn.client import Client


class Manifests:
    """The manifests of one object, as far as they have come.

    Attributes:
        segments: of the object.
    """

    def __init__(self, client: Client, name: Name, verifier: _core.ManifestVerifier) -> None:
        self._client = client
        self._name = with_keyword(name, MANIFEST)
        self._verifier = verifier
        self._fetching = asyncio.Lock()
        self.segments: int = verifier.segments

    @classmethod
    async def fetch(
        cls, client: Client, name: Name, validator: Validator, *, patience_s: float
    ) -> Manifests:
        """Fetch the root manifest of the object ``name``, whoever else answers for it.

        Raises:
            SecurityError: none that may be believed came in ``patience_s``.
            InterestTimeout: nobody has it.
            MalformedPacket: it is no root manifest.
        """
        root_name = with_segment(with_keyword(name, MANIFEST), 0)
        root = await fetch_believed(client, root_name, validator, deadline_s=patience_s)
        try:
            verifier = _core.ManifestVerifier(root)
        except ValueError as error:
            raise MalformedPacket(f"{root.name}: {error}") from error
        return cls(client, name, verifier)

    async def digest_of(self, segment: int) -> bytes:
        """The implicit digest of a segment.

        Raises:
            SecurityError: a manifest is not the one that its parent lists.
            InterestTimeout: nobody has a manifest that lists it.
        """
        async with self._fetching:
            while (missing := self._verifier.missing_manifest(segment)) is not None:
                await self._fetch_manifest(missing)
        return self._verifier.segment_digest(segment)

    async def _fetch_manifest(self, manifest: int) -> None:
        name = with_segment(self._name, manifest)
        digest = self._verifier.manifest_digest(manifest)
        data = await self._client.express(with_digest(name, digest))
        if not self._verifier.add_manifest(data):
            raise SecurityError(f"{name} is no manifest, though its parent lists it")
