"""Keys that a launcher deals to the nodes of a run.

Each host of a job has an Ed25519 pair that no earlier job has seen: it signs its objects with it,
and its segments too when that is the setting. Whose keys vouch for a group's names, and the key
that its members share with a symmetric signature, nodes learn when the group is made
(:mod:`.group_keys`); no file has them. A job's hosts, and nobody else, also share a secret from
which the tenant of its pools of blocks is derived. The files are readable by their owner alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from innet._native import _core
from innet.errors import SecurityError
from innet.private_files import write_private
from innet.security.group_keys import GroupKeySource, JobSecret
from innet.security.job_certificates import JobCertificates
from innet.security.key import (
    SHARED_KEY_BYTES,
    Key,
    node_certificate_name,
    node_key_prefix,
)
from innet.settings import Signature
from innet.trust.certificate import Certificate, Validity

KEYS_VARIABLE = "INNET_KEYS"
"""Environment variable with the path of the node's key file."""

_KEYLESS: frozenset[Signature] = frozenset({"digest", "none"})
_POOL_SECRET_BYTES = 32
_CERTIFICATE_LIFETIME = timedelta(days=3650)
"""Longer than any job: its anchor certifies nothing after its beginning."""


class NodeKeys(BaseModel):
    """What one node signs with, and what it trusts.

    Attributes:
        signing: for segments and sums.
        objects: for the manifests of objects: the node's own Ed25519 key.
        trusted: whose signatures are taken.
        operator: public key of who may give commands, hexadecimal; ``None``: nobody.
        authority: public key of who says which keys a group has (SubjectPublicKeyInfo,
            hexadecimal); ``None``: groups have none of their own.
        pool_secret: of the job's tenant of pools, hexadecimal; ``None``: a switch has none.
        commands_by: certificates (packets, hexadecimal) of the keys whose NDN management commands
            count; empty: whatever local programs sign.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    signing: Key
    objects: Key
    trusted: tuple[Key, ...]
    operator: str | None = None
    authority: str | None = None
    pool_secret: str | None = Field(default=None, repr=False)
    commands_by: tuple[str, ...] = ()

    def signing_key(self) -> _core.SigningKey:
        """The signing key with a fresh salt: no GMAC nonce repeats after a restart."""
        return self.signing.native(secrets.token_bytes(6))

    def signing_key_as(self, name: str) -> _core.SigningKey | None:
        """The node's own key under another name; ``None`` where segments are not signed with it."""
        if self.signing.signature != "ed25519":
            return None
        return self.signing.called(name).native()

    def object_key(self) -> _core.SigningKey:
        """The key that this node's objects are signed with."""
        return self.objects.native()

    def trusted_keys(self) -> list[_core.SigningKey]:
        """The keys to verify with."""
        return [key.native() for key in self.trusted]

    def pool_secret_bytes(self) -> bytes:
        """The secret of the job's tenant of pools.

        Raises:
            SecurityError: the node has none.
        """
        if self.pool_secret is None:
            raise SecurityError("these keys are of no job's host, and so have no pool's secret")
        return bytes.fromhex(self.pool_secret)

    def save(self, path: Path) -> None:
        """Write the keys to ``path``, readable by the owner alone."""
        write_private(path, self.model_dump_json())

    @classmethod
    def load(cls, path: Path) -> NodeKeys:
        """Read what :meth:`save` wrote.

        Raises:
            SecurityError: the file cannot be read or holds something else.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise SecurityError(f"cannot read the keys {path}: {error.strerror}") from error
        except ValidationError as error:
            raise SecurityError(
                f"{path} is not a key file of this version of innet; launch the run again"
            ) from error


class JobTrust(BaseModel):
    """What a switch needs of a job's keys before any of its groups is made.

    Attributes:
        signing: for the job's sums; ``None``: the switch's own key signs them.
        trusted: whose signatures are taken for the job's names, and for no others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    signing: Key | None
    trusted: tuple[Key, ...]

    def signing_key(self) -> _core.SigningKey | None:
        """The signing key with a fresh salt, if the job has one."""
        return None if self.signing is None else self.signing.native(secrets.token_bytes(6))

    def trusted_keys(self) -> list[_core.SigningKey]:
        """The keys to verify with."""
        return [key.native() for key in self.trusted]


@dataclass(frozen=True, slots=True)
class JobKeys:
    """The keys of one job.

    Attributes:
        hosts: for each of its hosts, which learns of no other job's.
        switches: for each switch.
        groups: for the controller: what it makes the keys of groups of.
        certificates: for everybody: whose keys of the job are whose.
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


class KeyDealer:
    """Deals the keys of one run: to its switches at the start, to each job when it comes.

    >>> keys = KeyDealer(["s0"], "gmac").deal("j1", ["h0"])
    >>> keys.hosts["h0"].signing == keys.hosts["h0"].objects
    True
    """

    def __init__(
        self,
        switches: Iterable[str],
        signature: Signature,
        operator: str | None = None,
        authority: str | None = None,
        policy: str | None = None,
        key_lifetime_s: float | None = None,
        commands_by: Iterable[Certificate] = (),
    ) -> None:
        """All nodes take commands of ``operator``, and keys of groups of ``authority``.

        NDN management commands they take of the keys in ``commands_by`` alone, if there are any.

        Where each node signs with a key of its own, ``policy`` says who may sign what (``None``:
        all names of its groups). What nodes sign with keys of their own counts for
        ``key_lifetime_s`` after a job's keys were dealt (``None``: for ever).
        """
        self._signature = signature
        self._policy = policy
        self._lifetime = None if key_lifetime_s is None else timedelta(seconds=key_lifetime_s)
        self._operator = operator
        self._authority = authority
        self._commands_by = tuple(certificate.wire.hex() for certificate in commands_by)
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
            operator=self._operator,
            authority=self._authority,
            pool_secret=pool_secret,
            commands_by=self._commands_by,
        )


def _keyless(signature: Signature) -> Key | None:
    """What stands for a key where nothing is signed with one."""
    return Key(signature=signature, name="", secret="") if signature in _KEYLESS else None


def _new_shared_key(name: str, signature: Signature) -> Key | None:
    """``None`` where everybody signs by a key of their own."""
    if signature not in SHARED_KEY_BYTES:
        return _keyless(signature)
    secret = secrets.token_bytes(SHARED_KEY_BYTES[signature]).hex()
    return Key(signature=signature, name=name, secret=secret)


def _new_pair(name: str) -> Key:
    secret = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    return Key(signature="ed25519", name=name, secret=secret)
