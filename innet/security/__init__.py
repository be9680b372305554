"""Keys of a run: made by the launcher, dealt to the nodes that belong to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.security.key_dealer import JobKeys, KeyDealer, deal_keys
    from innet.security.keys import JobTrust, NodeKeys, node_certificate_name

__all__ = [
    "JobKeys",
    "JobTrust",
    "KeyDealer",
    "NodeKeys",
    "deal_keys",
    "node_certificate_name",
]

__getattr__ = lazy_names(
    __name__,
    {
        "node_certificate_name": "keys",
        "JobKeys": "key_dealer",
        "JobTrust": "keys",
        "KeyDealer": "key_dealer",
        "NodeKeys": "keys",
        "deal_keys": "key_dealer",
    },
)
