"""Data packets taken apart and put together again, as somebody on the wire would."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

from innet._native import _core
from innet.ndn.wire import parse_data
from innet.security.trust import PrivateKey, tlv
from innet.security.trust.names import name_of
from innet.tlv_numbers import SignatureType, TlvType

Change = Callable[[bytes], Sequence[bytes]]


def encoded_name(name: str) -> bytes:
    """The Name element."""
    return tlv.encode(TlvType.NAME, name_of(name).value())


def data_name(datagram: bytes) -> str:
    """The name of the Data that a datagram is; empty for anything else."""
    if datagram[:1] != bytes((TlvType.DATA,)):
        return ""
    return str(parse_data(datagram).name)


def with_element(datagram: bytes, number: int, element: bytes) -> bytes:
    """The Data with another element of that type."""
    parts = (
        element if kind == number else tlv.encode(kind, value) for kind, value in _parts(datagram)
    )
    return tlv.encode(TlvType.DATA, *parts)


def element_of(datagram: bytes, number: int) -> bytes:
    """The Data's element of that type."""
    return tlv.encode(number, dict(_parts(datagram))[number])


def _parts(datagram: bytes) -> list[tuple[int, bytes]]:
    [(kind, value)] = tlv.decode(datagram)
    assert kind == TlvType.DATA
    return tlv.decode(value)


def renamed(datagram: bytes, like: bytes) -> bytes:
    """The Data under the name of another."""
    return with_element(datagram, TlvType.NAME, element_of(like, TlvType.NAME))


def signed_by_hmac(datagram: bytes, key_name: bytes, secret: bytes, content: bytes) -> bytes:
    """The Data with this content, as who has the secret signs it under the key's name."""
    changed = with_element(datagram, TlvType.CONTENT, tlv.encode(TlvType.CONTENT, content))
    return _signed(changed, 4, key_name, lambda p: hmac.digest(secret, p, hashlib.sha256))


def signed_by_key(datagram: bytes, name: str, key_name: str, key: PrivateKey) -> bytes:
    """The Data under another name, as who has the private key signs it under the key's name."""
    changed = with_element(datagram, TlvType.NAME, encoded_name(name))
    locator = encoded_name(key_name)
    return _signed(changed, key.public.signature_type, locator, key.sign)


def signed_by_nobody(datagram: bytes, kind: SignatureType) -> bytes:
    """The Data with a digest, or nothing, in place of its signature."""
    number = _core.encode_number_element(TlvType.SIGNATURE_TYPE, int(kind))
    info = tlv.encode(TlvType.SIGNATURE_INFO, number)
    portion = _portion_to_sign(datagram, info)
    digest = hashlib.sha256(portion).digest() if kind == SignatureType.DIGEST_SHA256 else b""
    return tlv.encode(TlvType.DATA, portion, tlv.encode(TlvType.SIGNATURE_VALUE, digest))


def _signed(datagram: bytes, kind: int, key_name: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    info = tlv.encode(
        TlvType.SIGNATURE_INFO,
        _core.encode_number_element(TlvType.SIGNATURE_TYPE, kind),
        tlv.encode(TlvType.KEY_LOCATOR, key_name),
    )
    portion = _portion_to_sign(datagram, info)
    return tlv.encode(TlvType.DATA, portion, tlv.encode(TlvType.SIGNATURE_VALUE, sign(portion)))


def _portion_to_sign(datagram: bytes, signature_info: bytes) -> bytes:
    changed = with_element(datagram, TlvType.SIGNATURE_INFO, signature_info)
    return b"".join(
        tlv.encode(kind, value)
        for kind, value in _parts(changed)
        if kind != TlvType.SIGNATURE_VALUE
    )


class Wire:
    """Does something to each Data on a link, once it is told what; for ``Cluster(tamper=...)``."""

    def __init__(self) -> None:
        self.change: Change = lambda datagram: [datagram]
        self.changed = 0

    def __call__(self, datagram: bytes) -> Sequence[bytes]:
        if not data_name(datagram):
            return [datagram]
        passed = self.change(datagram)
        self.changed += list(passed) != [datagram]
        return passed
