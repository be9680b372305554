"""Keys, certificates and trust policies: owners of keys, and which key may sign which names.

Start with :class:`Certificate` (what says whose a key is), :class:`KeyStore` (keys on disk),
:class:`Policy` (a file in the LightVerSec language), and :class:`Validator`, which judges packets
by all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from innet.lazy_package import lazy_names

if TYPE_CHECKING:
    from innet.security.trust.certificate import Certificate, Validity
    from innet.security.trust.key_operations import SafeBag
    from innet.security.trust.key_store import KeyStore
    from innet.security.trust.keys import PrivateKey, PublicKey, WrongPassphrase
    from innet.security.trust.policy import Decision, Policy
    from innet.security.trust.revocation import Revocation
    from innet.security.trust.signed_data import SignedData
    from innet.security.trust.validator import Refusal, Validator, Verdict

__all__ = [
    "Certificate",
    "Decision",
    "KeyStore",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Refusal",
    "Revocation",
    "SafeBag",
    "SignedData",
    "Validator",
    "Validity",
    "Verdict",
    "WrongPassphrase",
]

# Loaded at first use: every node needs keys and packets, and none the compiler of policies.
__getattr__ = lazy_names(
    __name__,
    {
        "Certificate": "certificate",
        "Validity": "certificate",
        "KeyStore": "key_store",
        "PrivateKey": "keys",
        "PublicKey": "keys",
        "WrongPassphrase": "keys",
        "Decision": "policy",
        "Policy": "policy",
        "Revocation": "revocation",
        "SafeBag": "key_operations",
        "SignedData": "signed_data",
        "Refusal": "validator",
        "Validator": "validator",
        "Verdict": "validator",
    },
)
