"""A job's certificates: its anchor's, and those that the anchor issues to its nodes' keys.

    /<job>/KEY/<id>/self/v=1                  the anchor
    /n/<node>/KEY/<job>/anchor/v=1            the key of a node in this job

What nodes sign points at the latter, so that whoever has the anchor can check it as any NDN
certificate chain. The anchor's private half is forgotten as soon as it has signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from innet.security.certificate_file import save_packets
from innet.security.key import ISSUER, Key, node_certificate_name
from innet.security.trust.certificate import Certificate, Validity
from innet.security.trust.key_store import new_key_id
from innet.security.trust.keys import PrivateKey
from innet.security.trust.names import key_of, name_of, new_key_name

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
        nodes = {
            node: Certificate.issue(
                key_of(name_of(node_certificate_name(node, job))),
                PrivateKey.from_raw_ed25519(bytes.fromhex(key.secret)).public,
                validity,
                version=_VERSION,
                issuer=anchor_key,
                issuer_locator=anchor.name,
                issuer_id=ISSUER,
            )
            for node, key in keys.items()
        }
        return cls(anchor, nodes)

    def save(self, path: Path) -> None:
        """Write all of them, one in a line; there is nothing secret in them."""
        save_packets(path, [self.anchor.wire, *(each.wire for each in self.nodes.values())])
