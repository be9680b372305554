"""Keys of groups: each membership is an epoch of its own, with a key that others never had.

A group's members are fixed for its life: who joins, leaves or goes on without others is in a new
group, with another number and other names. So the key of an epoch is the key of one such group. It
vouches for names below the group's prefixes alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import Field

from innet._native import _core
from innet.security.keys import SHARED_KEY_BYTES, Key, node_certificate_name
from innet.settings import Signature
from innet.validation_messages import StrictModel


def epoch_name(prefixes: Sequence[str], number: int) -> str:
    """The name of a group's key, with its epoch.

    Args:
        prefixes: what the group's names begin with: as many as it has plans.
        number: the group's among those of its name.

    >>> epoch_name(["/j1/g0.inc.2", "/j1/g0.ring.2"], 2)
    '/j1/KEY/g0/v=2'
    """
    _, job, group = prefixes[0].split("/")
    return f"/{job}/KEY/{group.partition('.')[0]}/v={number}"


def object_rights(prefixes: Sequence[str], members: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """By node, the prefixes of its objects, which its own key signs beside a shared key.

    >>> object_rights(["/j1/g0.inc"], ["h0", "h1"])["h1"]
    ('/j1/g0.inc/obj/1',)
    """
    return {
        node: tuple(f"{prefix}/obj/{rank}" for prefix in prefixes)
        for rank, node in enumerate(members)
    }


class JobSecret(StrictModel):
    """The secret from which the keys of a job's groups are derived, of launcher and controller.

    Attributes:
        signature: of the segments: ``gmac`` or ``hmac``.
        secret: 32 bytes, hexadecimal.
    """

    signature: Signature
    secret: str = Field(repr=False)

    @classmethod
    def new(cls, signature: Signature) -> JobSecret | None:
        """A new secret; ``None`` if segments are signed without a shared key."""
        if signature not in SHARED_KEY_BYTES:
            return None
        return cls(signature=signature, secret=secrets.token_bytes(32).hex())

    def epoch_key(self, name: str) -> Key:
        """The key of that name: always the same, and unrelated to other names' keys (HKDF)."""
        derived = HKDF(
            algorithm=SHA256(),
            length=SHARED_KEY_BYTES[self.signature],
            salt=None,
            info=b"innet group key " + name.encode(),
        ).derive(bytes.fromhex(self.secret))
        return Key(signature=self.signature, name=name, secret=derived.hex())


class GroupCredentials(StrictModel):
    """The keys with which a node signs a group's packets, and those that it accepts there.

    Attributes:
        prefixes: names below these are the group's.
        key: shared by the members and switches; ``None`` if each signs with its own.
        salt: first bytes of every nonce that this node uses with the key; unique to this node;
            hexadecimal.
        trusted: public keys of the members, and of switches that sign with their own keys.
        names: by key, the prefixes of the names that it vouches for; ``None``: each key vouches for
            all names of the group.
    """

    prefixes: tuple[str, ...]
    key: Key | None
    salt: str = ""
    trusted: tuple[Key, ...]
    names: dict[str, tuple[str, ...]] | None = None

    def install(self, node: _core.NodeHandle) -> None:
        """Have ``node`` sign and verify the group's names with these, and with nothing else."""
        shared = [] if self.key is None else [self.key.native()]
        node.install_group_keys(
            list(self.prefixes),
            None if self.key is None else self.key.native(bytes.fromhex(self.salt)),
            [*shared, *(key.native(names=self._names_of(key)) for key in self.trusted)],
        )

    def _names_of(self, key: Key) -> Sequence[str] | None:
        return None if self.names is None else self.names.get(key.name, ())


class GroupKeySource(StrictModel):
    """The source of credentials for a job's groups: the controller has it, and no node.

    Attributes:
        secret: of the keys that are shared; ``None`` where none is.
        hosts: public key of each of the job's hosts.
        switches: public keys of the switches, where they sign sums with their own.
        policy: who of them may sign what, in the LightVerSec language; ``None``: each all names of
            its groups.
    """

    secret: JobSecret | None
    hosts: Mapping[str, Key]
    switches: tuple[Key, ...] = ()
    policy: str | None = None

    def credentials(
        self,
        prefixes: Sequence[str],
        epoch: str,
        members: Sequence[str],
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> GroupCredentials:
        """The credentials of a group, without the salt of a node.

        Args:
            prefixes: of its names.
            epoch: name of its key.
            members: its nodes, by rank.
            names: by node, the prefixes that its key may sign; ``None``: its objects, or all names
                of the group if nodes sign segments with their own keys.
        """
        rights = None
        if names is None and self.secret is not None:
            names = object_rights(prefixes, members)
        if names is not None:
            job = prefixes[0].split("/")[1]
            rights = {
                node_certificate_name(node, job): tuple(of_node) for node, of_node in names.items()
            }
        return GroupCredentials(
            prefixes=tuple(prefixes),
            key=None if self.secret is None else self.secret.epoch_key(epoch),
            trusted=(*(self.hosts[node] for node in members), *self.switches),
            names=rights,
        )
