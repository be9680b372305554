"""Revocations: signed records that a certificate is not valid any more.

A record is a Data packet of its own, named after the certificate:

    /<identity>/REVOKE/<id>/<issuer>/<version>/<self or issuer>

The certificate's own key signs it (when its owner has lost it), or its issuer's key. So the name of
a certificate gives the name of its record, no complete list is needed, and any cache may hold a
record. A network that drops a record hides the revocation; for this reason certificates also have
short periods.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from innet._native import _core
from innet.errors import SecurityError
from innet.names import Name
from innet.security.trust.certificate import Certificate
from innet.security.trust.keys import PrivateKey, PublicKey
from innet.security.trust.names import is_revocation_name, revocation_name, revoked_certificate
from innet.security.trust.signed_data import parse_data, sign_data


@dataclass(frozen=True)
class Revocation:
    """A record; :meth:`revokes` says whether its signer may revoke.

    Attributes:
        data: the packet.
        time: since when, in UTC: earlier signatures are not accepted either, since nothing proves
            when they were made.
        reason: for people.
    """

    data: _core.ReceivedData
    time: datetime
    reason: str

    @classmethod
    def of(
        cls,
        certificate: Certificate,
        signer: PrivateKey,
        signer_locator: Name,
        *,
        time: datetime,
        reason: str,
    ) -> Revocation:
        """Revoke ``certificate``: by its own key, or by that of its issuer.

        Raises:
            SecurityError: ``signer`` is neither.
        """
        by_itself = signer.public == certificate.public_key
        if not by_itself and not signer.public.has_signed(certificate.data):
            raise SecurityError(
                f"{certificate.name} can be revoked by its own key or by "
                f"{_issuer_of(certificate)}, which issued it; {signer_locator} is neither"
            )
        content = {"time": time.astimezone(UTC).isoformat(timespec="seconds"), "reason": reason}
        data = sign_data(
            revocation_name(certificate.name, by_itself),
            json.dumps(content).encode(),
            signer,
            signer_locator,
        )
        return cls.from_data(data)

    @classmethod
    def from_data(cls, data: _core.ReceivedData) -> Revocation:
        """The record that a packet is.

        Raises:
            SecurityError: it is malformed.
        """
        if not is_revocation_name(data.name):
            raise SecurityError(f"{data.name} is not a name of a revocation")
        try:
            content = json.loads(data.content)
            time, reason = datetime.fromisoformat(content["time"]), str(content["reason"])
        except (ValueError, KeyError, TypeError) as error:
            raise SecurityError(f"revocation {data.name} is malformed: {error}") from error
        return cls(data, time, reason)

    @classmethod
    def parse(cls, wire: bytes) -> Revocation:
        """The record that these bytes are.

        Raises:
            SecurityError: they are malformed.
        """
        return cls.from_data(parse_data(wire))

    @property
    def certificate(self) -> Name:
        """The certificate that it is about."""
        return revoked_certificate(self.data.name)

    def revokes(self, certificate: Certificate, issuer: PublicKey) -> bool:
        """Whether ``certificate``, issued by ``issuer``, is revoked."""
        if self.certificate != certificate.name:
            return False
        by_itself = self.data.name == revocation_name(certificate.name, by_itself=True)
        return (certificate.public_key if by_itself else issuer).has_signed(self.data)


def _issuer_of(certificate: Certificate) -> str:
    locator = certificate.data.key_name
    return "an unnamed key" if locator is None else str(locator)
