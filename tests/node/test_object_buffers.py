"""Buffers that objects are published from and fetched into."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet._native import _core
from tests.interop.nodes import listening_node

_KEY_NAME = "/n/h0/KEY"


def test_the_buffer_of_a_failed_publication_is_reusable(tmp_path):
    contents = np.zeros(1000, np.uint8)
    root = _core.ObjectBuffer()
    name = _core.Name("/pool/block")
    verifying = _core.SigningKey("ecdsa", _KEY_NAME, b"")
    signing = _core.SigningKey(
        "ed25519", _KEY_NAME, Ed25519PrivateKey.generate().private_bytes_raw()
    )
    with listening_node(f"unix://{tmp_path}/h0.ndn") as (node, _uri):
        node.register_objects(_core.Name("/pool"), "pool")
        with pytest.raises(ValueError, match="only verify"):
            node.publish_object(name, contents, verifying, 4000, root)
        operation = node.publish_object(name, contents, signing, 4000, root)
        assert node.wait(operation, 20.0) == (_core.STATUS_DONE, "")
        with pytest.raises(ValueError, match="another object's"):
            node.publish_object(name, contents, signing, 4000, root)
