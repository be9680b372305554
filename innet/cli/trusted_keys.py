"""Whom a command shall trust: an anchor, and a policy that says who may sign what below it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from innet.ndn import Client
    from innet.security.trust import Certificate, Policy, Revocation, Validator


@dataclass(frozen=True)
class Trust:
    """A policy, its anchor, and what the user's key store knows to be revoked."""

    policy: Policy
    anchor: Certificate
    revocations: tuple[Revocation, ...] = ()

    def validator(self, client: Client) -> Validator:
        """Judges what ``client`` gets, and fetches certificates by it."""
        from innet.ndn.certificates import policy_validator

        return policy_validator(client, self.policy, [self.anchor], self.revocations)


def trust_of(anchor: str | None, policy: str) -> Trust | None:
    """What ``--anchor`` and ``--policy`` say; ``None`` when nobody shall be trusted.

    Raises:
        SecurityError: there is no such certificate, or the policy cannot be used.
    """
    if anchor is None:
        return None
    from innet.security.trust import KeyStore, Policy
    from innet.security.trust.ceremonies import load_certificate
    from innet.security.trust.key_store import default_store

    file, store = Path(anchor), KeyStore(default_store())
    certificate = load_certificate(file) if file.is_file() else store.find_certificate(anchor)
    return Trust(Policy.load(policy), certificate, tuple(store.revocations()))
