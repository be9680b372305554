"""Writes the first inputs of the fuzz targets: one small packet of each kind.

``python -m tests.fuzz.seeds`` puts them into ``corpus/``; a finding becomes a test instead.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from innet._native import _core
from innet.observe.packets.layers import (
    ApplicationParameters,
    InterestSignatureInfo,
    InterestSignatureValue,
    SignatureNonce,
    SignatureTime,
    SignatureType,
    data,
    interest,
    link,
    manifest_content,
)
from innet.observe.packets.names import name_value
from innet.security.trust import tlv
from innet.tlv_numbers import TlvType

_CORPUS = Path(__file__).parent / "corpus"
_NAME = "/t/g0/0-3/sum.f32/seq=4/seg=1"


def signed_interest() -> bytes:
    """A command Interest of packet format v0.3, signed by a digest."""
    packet = interest("/localhost/nfd/rib/register/params-sha256=" + "00" * 32)
    packet.elements += [
        ApplicationParameters(value=b"\x68\x05\x07\x03\x08\x01a"),
        InterestSignatureInfo(
            elements=[
                SignatureType(value=0),
                SignatureNonce(value=bytes(8)),
                SignatureTime(value=1 << 40),
            ]
        ),
        InterestSignatureValue(value=bytes(32)),
    ]
    return bytes(packet)


def packets() -> dict[str, bytes]:
    """A packet of each kind."""
    asked = interest(_NAME, nonce=7, hints=["/n/s0"], lifetime_ms=500, must_be_fresh=True)
    answer = data(_NAME, bytes(8), freshness_ms=10, final_block="seg=9", tensor_elements=16)
    return {
        "interest": bytes(asked),
        "signed-interest": signed_interest(),
        "draft-interest": _to_neighbour(bytes(asked)),
        "prefix-interest": bytes(interest("/a/sha256digest=" + "ab" * 32, can_be_prefix=True)),
        "data": bytes(answer),
        "signed-data": bytes(data("/a/v=1", b"x", signature_type=5, key_name="/a/KEY/1")),
        "manifest": bytes(_root()),
        "nack": bytes(link(asked, nack=150, pit_token=b"1234")),
        "hold": bytes(link(asked, hold="3")),
        "marked": bytes(link(answer, mark=1, pit_token=bytes(32))),
        "hello": bytes(link(None, hello=True)),
        "piece": bytes(link(bytes(answer)[:40], fragment=(9, 0, 2))),
    }


def _root() -> bytes:
    digests = [hashlib.sha256(bytes([i])).digest() for i in range(2)]
    content = manifest_content(digests, segments=4, fan_out=2, object_bytes=20, segment_bytes=6)
    return bytes(data("/o/32=manifest/seg=0", content, content_type=1024))


def contents() -> dict[str, bytes]:
    """Inputs of the target for what packets carry: a choice, and bytes for it."""
    pairs = (2).to_bytes(4, "little") + bytes(range(1, 17)) + bytes(8)
    leaf = data("/o/32=manifest/seg=1", manifest_content([bytes(32)] * 2), content_type=1024)
    name = bytes(interest(_NAME).elements[0])[2:]
    return {
        "pairs": b"\x00" + 2 * pairs,
        "blocks": b"\x03" + 2 * ((1).to_bytes(4, "little") + bytes(4 + 128)),
        "q8": b"\x04" + bytes([130, *range(32)]) * 2,
        "floats": b"\x05" + bytes(range(64)),
        "name": b"\xf0" + name,
        "manifests": b"\xf0" + _root() + bytes(leaf),
    }


def management() -> dict[str, bytes]:
    """Inputs of the target for management: a choice, and bytes for it."""
    element, number = _core.encode_element, _core.encode_number_element
    name = element(0x07, name_value("/a/b"))
    parameters = element(0x68, name + number(0x6F, 255) + number(0x6A, 9) + number(0x6C, 1))
    filtered = element(0x96, element(0x83, b"udp4"))
    announced = element(0x6D, b"") + element(0x15, number(0x6D, 600_000))
    announcement = data("/a/b/32=PA/v=1/seg=0", announced, content_type=5)
    component = element(8, parameters)
    older = b"".join(
        (
            component,
            element(8, bytes(8)),
            element(8, b"12345678"),
            element(8, element(0x16, number(0x1B, 0))),
            element(8, element(0x17, bytes(32))),
        )
    )
    return {
        "parameters": b"\x00" + parameters,
        "filter": b"\x01" + filtered,
        "announcement": b"\x02" + bytes(announcement),
        "older-command": b"\x03" + older,
        "command": b"\x04" + signed_interest(),
    }


def reassembly() -> dict[str, bytes]:
    """Inputs of the target for fragments: records of a choice and what it takes."""

    def crafted(face: int, sequence: int, index: int, count: int, payload: bytes) -> bytes:
        """A fragment by its numbers, without a PIT token, whose payload is there once."""
        return bytes([face, sequence, index, count, 0, len(payload), *payload, 0])

    def raw(face: int, packet: bytes) -> bytes:
        return bytes([face | 4, len(packet)]) + packet

    whole = bytes(interest(_NAME))
    halves = whole[:20], whole[20:]
    pieces = [bytes(link(half, fragment=(9 + i, i, 2))) for i, half in enumerate(halves)]
    late = 7 << 3
    return {
        "whole": b"".join(crafted(0, 9 + i, i, 2, half) for i, half in enumerate(halves)),
        "reversed": b"".join(raw(1, piece) for piece in reversed(pieces)),
        "late": raw(2, pieces[0]) + raw(2 | late, pieces[1]),
        "forgotten": crafted(3, 9, 0, 2, halves[0]) + b"\xfb",
        "many": b"".join(crafted(0, n, 0, 64, b"x") for n in range(0, 250, 10)),
    }


def streams() -> dict[str, bytes]:
    """Inputs of the target for streams: packets one after the other, and what is none."""
    asked = bytes(interest(_NAME))
    return {
        "packets": asked + bytes(data(_NAME, bytes(300))) + bytes(link(asked, nack=150)),
        "cut": asked + asked[:9],
        "junk": asked + b"GET / HTTP/1.1\r\n",
        "too-large": b"\x06\xfe\x00\x01\x00\x00",
    }


def labels() -> dict[str, bytes]:
    """Inputs of the target for labels: where to cut, and a text."""
    return {
        "rank": b"\x013",
        "node": b"\x20" + b"a" * 32,
        "text": b"\x05" + "a\u00e9\u20ac\U0001f600z".encode(),
        "escape": b"\xff\x1b[2J",
        "no-text": b"\x02\xff\xfe\x80",
    }


def public_keys() -> dict[str, bytes]:
    """Inputs of the target for keys: a type, the signature's size, a key and the signature."""
    # Any number may be a modulus: whether it has factors is not looked at.
    modulus = int.from_bytes(hashlib.shake_256(b"modulus").digest(256), "big") | 1 << 2047 | 1
    rsa_key = rsa.RSAPublicNumbers(65537, modulus).public_key()
    curve_key = ec.derive_private_key(7, ec.SECP256R1()).public_key()
    signature = encode_dss_signature(1 << 200, 1 << 201)
    return {
        "ecdsa": bytes([0, len(signature)]) + _spki(curve_key) + signature,
        "rsa": b"\x01\xff" + _spki(rsa_key) + bytes(255),
        "ed25519": b"\x02\x00" + bytes(range(32)),
        "hmac": b"\x03\x00secret",
        "gmac": b"\x04\x00" + bytes(16),
    }


def attached_roots() -> dict[str, bytes]:
    """Inputs of the target for attached roots: what is wrong, a request's Name, and the roots."""
    request = bytes(_core.encode_element(0x07, name_value("/kv/ab/request/h1/h2/1/keep")))
    digests = [bytes([i]) * 32 for i in range(2)]
    block = _root_of_block("/a", digests, object_bytes=9)
    draft = _root_of_block("/a", digests, object_bytes=9, signature=bytes(64))
    large = _root_of_block("/b", digests * 2, segments=8, object_bytes=40)
    small = _root_of_block("/c", digests[:1], object_bytes=4, within=b"data")
    return {
        "roots": b"\x00" + request + block + large,
        "small": b"\x00" + request + small,
        "draft": b"\x00" + request + draft,
        "data": b"\x00" + request + bytes(data(_NAME, bytes(8))),
        "untagged": b"\x01" + request + bytes(16) + block,
        "other-request": b"\x02" + request + block,
        "changed": b"\x47" + request + block,
    }


def request_guard() -> dict[str, bytes]:
    """Inputs of the target for requests to homes: the values of Names, without tags."""
    numbers = f"{1:016x}{2:016x}{3:08x}"
    return {
        "drop": name_value(f"/requests/h2/{numbers}/drop/00ff"),
        "session": name_value(f"/requests/h2/{numbers}/session"),
        "tag": name_value(f"/requests/h2/{numbers}{4:032x}/pin/1000"),
        "no-number": name_value("/requests/h2/7/unpin"),
        "no-text": name_value(f"/requests/h2/{numbers}/seq=3"),
    }


def _to_neighbour(asked: bytes) -> bytes:
    """The Interest with attached roots, which accepts a draft."""
    [(number, value)] = tlv.decode(asked)
    roots = tlv.encode(TlvType.ATTACHED_ROOTS, b"roots")
    return tlv.encode(number, value, roots, tlv.encode(TlvType.ACCEPTS_DRAFT, b""))


def _root_of_block(
    name: str,
    digests: list[bytes],
    *,
    object_bytes: int,
    segments: int | None = None,
    within: bytes | None = None,
    signature: bytes | None = None,
) -> bytes:
    content = manifest_content(
        digests,
        segments=segments or len(digests),
        fan_out=4,
        object_bytes=object_bytes,
        segment_bytes=5,
    )
    if within is not None:
        content += bytes(_core.encode_element(0x8E, within))
    root = f"{name}/32=manifest/seg=0"
    packet = data(
        root,
        content,
        content_type=1024,
        signature_type=5,
        key_name="/k/KEY",
        signature=signature,
    )
    return bytes(packet)


def _spki(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def main() -> None:
    """Write all of them."""
    texts = {"name": _NAME.encode(), "escapes": b"/%41..../300=a%2Fb/.../v=1/32=meta"}
    for target, seeds in {
        "packet_decoder": packets(),
        "contents": contents(),
        "management": management(),
        "name_text": texts,
        "reassembler": reassembly(),
        "stream_framing": streams(),
        "labels": labels(),
        "public_keys": public_keys(),
        "attached_roots": attached_roots(),
        "request_guard": request_guard(),
    }.items():
        folder = _CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
