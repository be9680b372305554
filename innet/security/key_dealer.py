"""Keys that a launcher deals to the nodes of a run.

Each host of a job has a new Ed25519 key pair: it signs its objects with it, and its segments too if
the settings say so. When a group is made, its nodes receive the keys that vouch for its names and,
with a symmetric signature, the key that its members share (:mod:`.group_keys`); no file has them.
Only the hosts of a job share the secret from which the tenant of its block pools is derived. Only
their owner can read the files.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet.security.group_keys import GroupKeySource, JobSecret
from innet.security.keys import (
    ISSUER,
    SHARED_KEY_BYTES,
    JobTrust,
    Key,
    NodeKeys,
    node_certificate_name,
    node_key_prefix,
    save_packets,
)
from innet.security.trust.certificate import Certificate, Issuer, Validity
from innet.security.trust.key_store import new_key_id
from innet.security.trust.keys import PrivateKey
from innet.security.trust.names import key_of, name_of, new_key_name
from innet.settings import Signature

_VERSION = 1
"""Each certificate is issued once."""


@dataclass(frozen=True)
class JobCertificates:
    """The certificates of one job.

    Attributes:
        anchor: signed by itself.
        nodes: of the keys of its hosts, and of the switches in it.
    """

    anchor: Certificate
    nodes: Mapping[str, Certificate]

    @classmethod
    def issue(cls, job: str, keys: Mapping[str, Key], validity: Validity) -> Self:
        """Make an anchor, which certifies the keys (with their private halves) of these nodes."""
        anchor_key = PrivateKey.generate("ed25519")
        anchor = Certificate.self_signed(
            new_key_name(name_of(f"/{job}"), new_key_id()), anchor_key, validity, version=_VERSION
        )
        issuer = Issuer(anchor_key, anchor.name, ISSUER)
        nodes = {
            node: Certificate.issue(
                key_of(name_of(node_certificate_name(node, job))),
                PrivateKey.from_raw_ed25519(bytes.fromhex(key.secret)).public,
                validity,
                issuer,
                version=_VERSION,
            )
            for node, key in keys.items()
        }
        return cls(anchor, nodes)

    def save(self, path: Path) -> None:
        """Write all of them, one in a line; there is nothing secret in them."""
        save_packets(path, [self.anchor.wire, *(each.wire for each in self.nodes.values())])


_KEYLESS: frozenset[Signature] = frozenset({"digest", "none"})
_POOL_SECRET_BYTES = 32
_CERTIFICATE_LIFETIME = timedelta(days=3650)
"""Longer than any job: its anchor certifies nothing after its beginning."""


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The keys of one job.

    Attributes:
        hosts: for each of its hosts, which receives no other job's keys.
        switches: for each switch.
        groups: for the controller, which makes the keys of groups from it.
        certificates: for all nodes: the owners of the job's keys.
    """

    hosts: Mapping[str, NodeKeys]
    switches: JobTrust
    groups: GroupKeySource
    certificates: JobCertificates


def deal_keys(nodes: Iterable[str], signature: Signature, job: str = "j") -> dict[str, NodeKeys]:
    """Make keys for ``nodes`` that have one job among them all.

    >>> keys = deal_keys(["h0", "s0"], "gmac")
    >>> keys["h0"].signing == keys["s0"].signing
    True
    """
    own = {node: _new_pair(node_certificate_name(node, job)) for node in nodes}
    shared = _new_shared_key("/g/k", signature)
    public = tuple(key.public() for key in own.values())
    trusted = public if shared is None else (shared, *public)
    return {
        node: NodeKeys(signing=shared or key, objects=key, trusted=trusted)
        for node, key in own.items()
    }


@dataclass(frozen=True)
class Authorities:
    """Whom all nodes of a run obey; see :class:`NodeKeys`.

    Attributes:
        operator: public key of the operator.
        authority: public key of the controller.
        commands_by: whose NDN management commands nodes accept; empty: any local program's.
    """

    operator: str | None = None
    authority: str | None = None
    commands_by: Sequence[Certificate] = ()


class KeyDealer:
    """Deals the keys of one run: to its switches at the start, to each job when it starts.

    >>> keys = KeyDealer(["s0"], "gmac").deal("j1", ["h0"])
    >>> keys.hosts["h0"].signing == keys.hosts["h0"].objects
    True
    """

    def __init__(
        self,
        switches: Iterable[str],
        signature: Signature,
        *,
        authorities: Authorities | None = None,
        policy: str | None = None,
        key_lifetime_s: float | None = None,
    ) -> None:
        """
        Args:
            switches: of the run.
            signature: of segments.
            authorities: whom all nodes obey.
            policy: which names a node may sign that signs with its own key; ``None``: all names of
                its groups.
            key_lifetime_s: how long such signatures are valid after the job's keys were dealt;
                ``None``: for ever.
        """
        self._signature = signature
        self._policy = policy
        self._lifetime = None if key_lifetime_s is None else timedelta(seconds=key_lifetime_s)
        self._authorities = Authorities() if authorities is None else authorities
        own = {switch: _new_pair(node_key_prefix(switch)) for switch in switches}
        self.switches: Mapping[str, NodeKeys] = {
            switch: self._node_keys(key) for switch, key in own.items()
        }
        """The switches' own keys: those of groups they learn from the controller."""

    def deal(self, job: str, hosts: Iterable[str]) -> JobKeys:
        """The keys of a job.

        Each host gets an Ed25519 pair of its own, and all of them a secret for their pools, that no
        earlier job has seen. An anchor of the job's own certifies these pairs and the switches'.

        Args:
            job: the first component of its names.
            hosts: its hosts.
        """
        own = {host: _new_pair(node_certificate_name(host, job)) for host in hosts}
        switches = {
            switch: keys.objects.called(node_certificate_name(switch, job))
            for switch, keys in self.switches.items()
        }
        now = datetime.now(UTC)
        not_after = now + (_CERTIFICATE_LIFETIME if self._lifetime is None else self._lifetime)
        pool_secret = secrets.token_bytes(_POOL_SECRET_BYTES).hex()
        keyless = _keyless(self._signature)
        signs_each = self._signature == "ed25519"

        def public(key: Key) -> Key:
            end = None if self._lifetime is None else not_after.timestamp()
            return key.public().model_copy(update={"not_after": end})

        return JobKeys(
            {host: self._node_keys(key, pool_secret) for host, key in own.items()},
            JobTrust(signing=keyless, trusted=() if keyless is None else (keyless,)),
            GroupKeySource(
                secret=JobSecret.new(self._signature),
                hosts={host: public(key) for host, key in own.items()},
                switches=tuple(map(public, switches.values())) if signs_each else (),
                policy=self._policy if signs_each else None,
            ),
            JobCertificates.issue(job, {**own, **switches}, Validity(now, not_after)),
        )

    def _node_keys(self, own: Key, pool_secret: str | None = None) -> NodeKeys:
        keyless = _keyless(self._signature)
        return NodeKeys(
            signing=keyless or own,
            objects=own,
            trusted=() if keyless is None else (keyless,),
            operator=self._authorities.operator,
            authority=self._authorities.authority,
            pool_secret=pool_secret,
            commands_by=tuple(each.wire.hex() for each in self._authorities.commands_by),
        )


def _keyless(signature: Signature) -> Key | None:
    """The key of a signature that needs none; ``None`` for other signatures."""
    return Key(signature=signature, name="", secret="") if signature in _KEYLESS else None


def _new_shared_key(name: str, signature: Signature) -> Key | None:
    """``None`` if each node signs with its own key."""
    if signature not in SHARED_KEY_BYTES:
        return _keyless(signature)
    secret = secrets.token_bytes(SHARED_KEY_BYTES[signature]).hex()
    return Key(signature=signature, name=name, secret=secret)


def _new_pair(name: str) -> Key:
    secret = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    return Key(signature="ed25519", name=name, secret=secret)
