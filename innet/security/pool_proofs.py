"""Proof of a process that it has the key of a tenant, when it opens the tenant's pool.

The key's public half is known to switches and to every machine. The signature holds for one process
of one network, so nobody else can use it.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from innet.security.keys import Key


def pool_statement(network: str, node: str, incarnation: int, tenant: str) -> bytes:
    """What the key signs.

    Args:
        network: public key of the controller's authority (SubjectPublicKeyInfo, hexadecimal).
        node: of the process.
        incarnation: of the process, among those of its node.
        tenant: whose pool it opens: the component in names.
    """
    return "\n".join(["innet pool", network, node, str(incarnation), tenant]).encode()


def is_proven(key: Key, proof: str, statement: bytes) -> bool:
    """Whether ``proof``, hexadecimal, is the signature of ``statement`` by a public Ed25519 key."""
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.secret))
        public.verify(bytes.fromhex(proof), statement)
    except (ValueError, InvalidSignature):
        return False
    return True
