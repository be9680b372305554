"""Writes the first inputs of the fuzz targets: one small packet of each kind.

``python -m tests.fuzz.seeds`` puts them into ``corpus/``; a finding becomes a test instead.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from innet._native import _core
from innet.packets.layers import (
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
from innet.packets.names import name_value

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


def main() -> None:
    """Write all of them."""
    texts = {"name": _NAME.encode(), "escapes": b"/%41..../300=a%2Fb/.../v=1/32=meta"}
    for target, seeds in {
        "packet_decoder": packets(),
        "contents": contents(),
        "management": management(),
        "name_text": texts,
    }.items():
        folder = _CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
