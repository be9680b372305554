"""Keys and NDN certificates: who has which key, and who says so.

Start with :class:`Certificate` (what says whose a key is) and :class:`KeyStore` (keys on disk).
"""

from innet.trust.certificate import Certificate, Validity
from innet.trust.key_store import KeyStore
from innet.trust.keys import PrivateKey, PublicKey, WrongPassphrase
from innet.trust.revocation import Revocation
from innet.trust.safe_bag import SafeBag
from innet.trust.signed_data import SignedData

__all__ = [
    "Certificate",
    "KeyStore",
    "PrivateKey",
    "PublicKey",
    "Revocation",
    "SafeBag",
    "SignedData",
    "Validity",
    "WrongPassphrase",
]
