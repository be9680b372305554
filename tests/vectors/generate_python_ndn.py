"""Writes ``python-ndn-0.5.2.json``: what python-ndn's encoders make of given fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import ndn.encoding as wire
from Cryptodome.PublicKey import ECC
from ndn.security import DigestSha256Signer, Ed25519Signer, HmacSha256Signer, NullSigner

_HINT = "/n/s0"
_KEY_NAME = "/alice/KEY/k1"
_SECRET = bytes(range(32))
_SIGNERS = {
    "digest": DigestSha256Signer(),
    "hmac": HmacSha256Signer(_KEY_NAME, _SECRET),
    "ed25519": Ed25519Signer(
        _KEY_NAME, ECC.construct(curve="ed25519", seed=cast(Any, _SECRET)).export_key(format="DER")
    ),
    "null": NullSigner(),
}


def interests() -> Iterator[dict[str, Any]]:
    """Interests, one for each thing that can be in them."""
    params = wire.InterestParam
    yield _interest("least", "/a", params(nonce=1, lifetime=None))
    yield _interest("numbers", "/a/seg=0/v=256/seq=65536", params(nonce=2, lifetime=None))
    yield _interest("odd components", "/%00%FF/.../32=meta/300=x", params(nonce=3, lifetime=None))
    yield _interest(
        "everything",
        "/a/b",
        params(
            can_be_prefix=True,
            must_be_fresh=True,
            nonce=0xFFFFFFFF,
            lifetime=300,
            hop_limit=7,
            forwarding_hint=[_HINT],
        ),
    )
    yield _interest("default lifetime", "/a", params(nonce=4), canonical=False)
    yield _interest("parameters", "/a", params(nonce=5, lifetime=None), parameters=b"hello")
    yield _interest("empty parameters", "/a", params(nonce=6, lifetime=None), parameters=b"")


def _interest(
    what: str,
    name: str,
    params: wire.InterestParam,
    parameters: bytes | None = None,
    canonical: bool = True,
) -> dict[str, Any]:
    packet = wire.make_interest(name, params, parameters)
    final_name, *_ = wire.parse_interest(packet)
    return {
        "what": f"Interest: {what}",
        "canonical": canonical,
        "hex": bytes(packet).hex(),
        "interest": {
            "name": [bytes(component).hex() for component in final_name],
            "can_be_prefix": params.can_be_prefix,
            "must_be_fresh": params.must_be_fresh,
            "nonce": params.nonce,
            "lifetime_ms": 4000 if params.lifetime is None else params.lifetime,
            "hop_limit": params.hop_limit,
            "hint": _HINT if params.forwarding_hint else None,
            "parameters": None if parameters is None else parameters.hex(),
        },
    }


def datas() -> Iterator[dict[str, Any]]:
    """Data packets, by signature and by metadata."""
    for signer in _SIGNERS:
        yield _data(f"signed by {signer}", "/a/b", b"hello", signer)
    yield _data(
        "metadata",
        "/a/v=1/seg=2",
        bytes(range(256)),
        "digest",
        wire.MetaInfo(1024, 60_000, wire.Component.from_segment(9)),
    )
    yield _data("no content", "/a", b"", "digest", wire.MetaInfo(None, 1, None))


def _data(
    what: str, name: str, content: bytes, signer: str, meta: wire.MetaInfo | None = None
) -> dict[str, Any]:
    packet = wire.make_data(name, meta, content, _SIGNERS[signer])
    _, _, _, signature = wire.parse_data(packet)
    locator = signature.signature_info.key_locator
    final = None if meta is None else meta.final_block_id
    return {
        "what": f"Data: {what}",
        "canonical": True,
        "hex": bytes(packet).hex(),
        "data": {
            "name": [bytes(component).hex() for component in wire.Name.from_str(name)],
            "content": content.hex(),
            "content_type": (0 if meta is None else meta.content_type) or 0,
            "freshness_ms": (0 if meta is None else meta.freshness_period) or 0,
            "final": None if final is None else bytes(final).hex(),
            "signature_type": signature.signature_info.signature_type,
            "key_name": None if locator is None or not locator.name else _KEY_NAME,
            "signature": bytes(signature.signature_value_buf or b"").hex(),
        },
    }


def links() -> Iterator[dict[str, Any]]:
    """Link packets."""
    asked = bytes(wire.make_interest("/a", wire.InterestParam(nonce=1, lifetime=None)))
    for reason in (50, 100, 150):
        packet = wire.make_network_nack(asked, reason)
        yield _link(f"Nack {reason}", packet, asked, nack=reason)
    headers: dict[str, dict[str, Any]] = {
        "PIT token": {"pit_token": bytes(range(8))},
        "congestion mark": {"congestion_mark": 1},
        "bare": {},
    }
    for what, fields in headers.items():
        value = wire.ndnlp_v2.LpPacketValue()
        value.fragment = asked
        for field, content in fields.items():
            setattr(value, field, content)
        packet = wire.ndnlp_v2.LpPacket()
        packet.lp_packet = value
        yield _link(what, packet.encode(), asked, **fields)


def _link(
    what: str,
    packet: Any,
    payload: bytes,
    pit_token: bytes = b"",
    nack: int | None = None,
    congestion_mark: int = 0,
) -> dict[str, Any]:
    return {
        "what": f"LpPacket: {what}",
        "canonical": True,
        "hex": bytes(packet).hex(),
        "link": {
            "payload": payload.hex(),
            "pit_token": pit_token.hex(),
            "nack": nack,
            "congestion_mark": congestion_mark,
            "fragment": None,
        },
    }


def main() -> None:
    """Write the file beside this one."""
    source = f"python-ndn {version('python-ndn')}"
    document = {"source": source, "vectors": [*interests(), *datas(), *links()]}
    path = Path(__file__).with_name(f"{source.replace(' ', '-')}.json")
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
