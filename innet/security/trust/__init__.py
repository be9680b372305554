"""Keys, certificates and trust policies: owners of keys, and which key may sign which names.

Start with :class:`Certificate` (what says whose a key is), :class:`KeyStore` (keys on disk),
:class:`Policy` (a file in the LightVerSec language), and :class:`PolicyValidator`, which judges
packets by all of them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from innet.imports import lazy_names

if TYPE_CHECKING:
    from innet.security.trust.certificate import Certificate, Validity
    from innet.security.trust.key_operations import SafeBag
    from innet.security.trust.key_store import KeyStore
    from innet.security.trust.keys import PrivateKey, PublicKey, WrongPassphrase
    from innet.security.trust.policy import Policy, PolicyDecision
    from innet.security.trust.revocation import Revocation
    from innet.security.trust.signed_data import parse_data, sign_data
    from innet.security.trust.validator import PacketRefused, PolicyValidator, Verdict

__all__ = [
    "Certificate",
    "KeyStore",
    "PacketRefused",
    "Policy",
    "PolicyDecision",
    "PolicyValidator",
    "PrivateKey",
    "PublicKey",
    "Revocation",
    "SafeBag",
    "Validity",
    "Verdict",
    "WrongPassphrase",
    "parse_data",
    "sign_data",
]

# Loaded at first use: every node needs keys and packets, and none the compiler of policies.
_load = lazy_names(
    __name__,
    {
        "Certificate": "certificate",
        "Validity": "certificate",
        "KeyStore": "key_store",
        "PrivateKey": "keys",
        "PublicKey": "keys",
        "WrongPassphrase": "keys",
        "PolicyDecision": "policy",
        "Policy": "policy",
        "Revocation": "revocation",
        "SafeBag": "key_operations",
        "parse_data": "signed_data",
        "sign_data": "signed_data",
        "PacketRefused": "validator",
        "PolicyValidator": "validator",
        "Verdict": "validator",
    },
)


_RENAMED = {
    "Decision": "PolicyDecision",
    "Refusal": "PacketRefused",
    "Validator": "PolicyValidator",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        what = f"innet.security.trust.{name} is now {_RENAMED[name]}"
        warnings.warn(what, DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    return _load(name)
