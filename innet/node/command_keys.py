"""The keys whose management commands a node accepts, from certificates."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from innet._native import _core
from innet.errors import SecurityError

if TYPE_CHECKING:
    from innet.security.trust import Certificate

_MOST_RSA_BITS = 8192
"""The largest that the node accepts (``transport/security/encoded_public_key.cpp``)."""


def load_command_certificate(path: Path, now: datetime) -> Certificate:
    """Load the certificate of a key whose commands the node accepts."""
    from innet.security.trust.key_operations import load_certificate

    certificate = load_certificate(path)
    if why := certificate.describe_period(now):
        raise SecurityError(
            f"{path}: this certificate {why}, and commands of its key are not to be obeyed. Issue "
            "another one (innet keys issue), or export one that counts (innet keys export)."
        )
    if (certificate.public_key.rsa_bits or 0) > _MOST_RSA_BITS:
        raise SecurityError(
            f"{path}: an RSA key of {certificate.public_key.rsa_bits} bits; nodes verify commands "
            f"of up to {_MOST_RSA_BITS}. Sign them with another key, ECDSA for example (innet keys "
            "new --type ecdsa)."
        )
    return certificate


def command_key(certificate: Certificate) -> _core.SigningKey:
    """The key of a certificate, as a node takes it for commands, until the certificate expires."""
    key = certificate.public_key
    left_s = (certificate.validity.not_after - datetime.now(UTC)).total_seconds()
    return _core.SigningKey(
        key.kind, str(certificate.key), key.raw_ed25519() or key.spki, valid_for_s=left_s
    )


def command_key_in(packet: bytes) -> _core.SigningKey:
    """The key of a certificate's packet, as a node takes it for commands."""
    from innet.security.trust.certificate import Certificate

    return command_key(Certificate.parse(packet))
