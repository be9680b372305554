"""Keys, certificates and trust policies: who has which key, and who may sign which names.

Start with :class:`Certificate` (what says whose a key is), :class:`KeyStore` (keys on disk),
:class:`Policy` (a file in the LightVerSec language), and :class:`Validator`, which judges packets
by all of them.
"""

from innet.trust.certificate import Certificate, Validity
from innet.trust.key_store import KeyStore
from innet.trust.keys import PrivateKey, PublicKey, WrongPassphrase
from innet.trust.policy import Decision, Policy
from innet.trust.revocation import Revocation
from innet.trust.safe_bag import SafeBag
from innet.trust.signed_data import SignedData
from innet.trust.validator import Refusal, Validator, Verdict

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
