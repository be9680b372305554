"""NDN for programs: a client of any forwarder that speaks NDN's protocols, innet's or NFD.

::

    from innet.ndn import Client, encode_data

    async with Client() as client:
        await client.register("/hello", lambda interest: encode_data(interest.name, b"world"))
        print((await client.express("/weather/today")).content)

Start with ``client.py``; ``objects/`` publishes and fetches data larger than a packet.
"""

from innet.names import Name
from innet.ndn.client import Client
from innet.ndn.production import Refusal
from innet.ndn.wire import ReceivedData, ReceivedInterest, encode_data, encode_interest
from innet.security.signers import DigestSigner, EcdsaSigner, Ed25519Signer, HmacSigner, Signer
from innet.security.validation import IntegrityValidator, KeyValidator, Validator
from innet.tlv_numbers import ContentType, NackReason

__all__ = [
    "Client",
    "ContentType",
    "DigestSigner",
    "EcdsaSigner",
    "Ed25519Signer",
    "HmacSigner",
    "IntegrityValidator",
    "KeyValidator",
    "NackReason",
    "Name",
    "ReceivedData",
    "ReceivedInterest",
    "Refusal",
    "Signer",
    "Validator",
    "encode_data",
    "encode_interest",
]
