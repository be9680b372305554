"""Keys and certificates of ``innet.security.trust`` over a client: signing, serving, fetching them.

::

    signer, certificate = stored_signer(KeyStore(default_store()), "/lab/alice")
    await serve_certificates(client, [certificate])
    await publish(client, "/lab/alice/photo", Path("photo.jpg"), signer=signer)

    validator = policy_validator(client, Policy.load("store"), [anchor])
    await fetch(client, "/lab/alice/photo", validator=validator)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from innet.names import Name, without_digest
from innet.ndn.production import Answer
from innet.ndn.wire import ReceivedInterest
from innet.security.validation import IntegrityValidator

if TYPE_CHECKING:
    from innet.ndn.client import Client
    from innet.security.trust import (
        Certificate,
        KeyStore,
        Policy,
        PolicyValidator,
        PrivateKey,
        Revocation,
    )


class CertifiedSigner:
    """Signs with a key, and points at a certificate of it.

    Attributes:
        signature_type: ECDSA's or Ed25519's, as the key is.
        key_name: of the certificate, by which receivers find it.
    """

    def __init__(self, key: PrivateKey, certificate: Certificate) -> None:
        self.signature_type = key.public.signature_type
        self.key_name: Name | None = certificate.name
        self._key = key

    def sign(self, signed_portion: bytes) -> bytes:
        return self._key.sign(signed_portion)


def stored_signer(
    store: KeyStore, name: str, passphrase: str | None = None
) -> tuple[CertifiedSigner, Certificate]:
    """A signer with the key that ``name`` means in ``store``, and the certificate it points at.

    Args:
        name: of an identity, a key or a certificate.
        passphrase: of a key that is encrypted.

    Raises:
        SecurityError: there is no such key or certificate, or it cannot be read.
    """
    certificate = store.find_certificate(name)
    key = store.private_key(store.find(name).name, passphrase)
    return CertifiedSigner(key, certificate), certificate


async def serve_certificates(client: Client, certificates: Sequence[Certificate]) -> None:
    """Register the names of the certificates' keys, and answer with the certificates.

    An Interest for a key's name receives the certificate that is valid for longest.

    Raises:
        CommandRefused: the forwarder does not let this client serve them.
    """
    by_name = {
        certificate.name: certificate.wire
        for certificate in sorted(certificates, key=lambda it: it.validity.not_after, reverse=True)
    }

    def serve(interest: ReceivedInterest) -> Answer:
        name = without_digest(interest.name)
        fits = (
            wire
            for certificate, wire in by_name.items()
            if certificate == name or (interest.can_be_prefix and name.is_prefix_of(certificate))
        )
        return next(fits, None)

    for key in {certificate.key for certificate in certificates}:
        await client.register(key, serve)


def certificate_fetch(client: Client) -> Callable[[str, bool], Awaitable[bytes]]:
    """The ``fetch`` of a :class:`innet.security.trust.PolicyValidator`: certificates, by name."""

    async def fetch(name: str, can_be_prefix: bool) -> bytes:
        data = await client.express(
            name,
            can_be_prefix=can_be_prefix,
            must_be_fresh=can_be_prefix,  # a cache may have one that was renewed since
            validator=IntegrityValidator(),
        )
        return data.wire

    return fetch


def policy_validator(
    client: Client,
    policy: Policy,
    anchors: Sequence[Certificate],
    revocations: Sequence[Revocation] = (),
) -> PolicyValidator:
    """A validator that follows ``policy`` up to ``anchors``, and fetches the certificates between.

    It refuses certificates that one of ``revocations`` revokes.

    Raises:
        SecurityError: there is no anchor, or the policy does not accept one.
    """
    from innet.security.trust import PolicyValidator

    return PolicyValidator(
        policy,
        anchors,
        fetch=certificate_fetch(client),
        now=lambda: datetime.now(UTC),
        revocations=revocations,
    )
