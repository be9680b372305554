"""What a node publishes by itself (`comm.publish`, a pool's blocks) is an object like any other."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet._native import _core
from innet.errors import SecurityError
from innet.ndn import Client, KeyValidator
from innet.ndn.objects import fetch
from tests.interop.nodes import listening_node

KEY = Ed25519PrivateKey.generate()
KEY_NAME = "/n/h0/KEY"
LARGEST_PACKET_BYTES = 4000


@pytest.mark.parametrize("draft", [False, True])
async def test_our_fetch_verifies_objects_that_a_node_publishes(tmp_path, *, draft):
    content = np.random.default_rng(5).integers(0, 256, 1_500_000, dtype=np.uint8)
    name = "/pool/model/block"
    with listening_node(f"unix://{tmp_path}/h0.ndn") as (node, uri):
        signing = _core.SigningKey("ed25519", KEY_NAME, KEY.private_bytes_raw())
        tag_key = bytes(64) if draft else None
        node.register_objects(_core.Name("/pool"), "pool", tag_key=tag_key)
        operation, _ = node.publish_objects(
            [name], [content], signing, LARGEST_PACKET_BYTES, draft=draft
        )
        node.object_root(_core.Name(name))  # begins the deferred operation
        assert node.wait(operation, 20.0) == (_core.STATUS_DONE, "")
        async with Client(uri) as client:
            fetched = await fetch(
                client, name, exact=True, validator=KeyValidator({KEY_NAME: KEY.public_key()})
            )
            assert fetched.content == content.tobytes()
            assert fetched.signed_once
            stranger = KeyValidator({KEY_NAME: Ed25519PrivateKey.generate().public_key()})
            with pytest.raises(SecurityError):
                await fetch(client, name, exact=True, validator=stranger)
