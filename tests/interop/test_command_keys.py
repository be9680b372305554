"""Other NDN implementations command a node with keys of their own kinds: ECDSA P-256 and RSA."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from ndn.app_support.nfd_mgmt import make_command_v2, parse_response
from ndn.appv2 import pass_all
from ndn.security.signer import Sha256WithEcdsaSigner, Sha256WithRsaSigner

from innet._native import _core
from innet.errors import CommandRefused
from innet.ndn import Client
from tests.interop.ndnts_peer import NdntsPeer, missing
from tests.interop.nodes import listening_node
from tests.interop.python_ndn_apps import appv2

_KEY_NAME = "/op/KEY/1"
_CERTIFICATE = f"{_KEY_NAME}/self/v=1"
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def _dated(signer_class: type[Any]) -> type[Any]:
    """python-ndn's signer, which also says when it signs, as commands must."""

    class Dated(signer_class):  # type: ignore[misc]
        def write_signature_info(self, info: Any) -> None:
            super().write_signature_info(info)
            info.signature_time = time.time_ns() // 1_000_000
            info.signature_nonce = time.time_ns() % 2**64

    return Dated


_KINDS: dict[str, tuple[Callable[[], _Key], type[Any]]] = {
    "ecdsa": (lambda: ec.generate_private_key(ec.SECP256R1()), _dated(Sha256WithEcdsaSigner)),
    "rsa": (lambda: rsa.generate_private_key(65537, 2048), _dated(Sha256WithRsaSigner)),
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[_core.Node, str]]:
    with listening_node(f"unix://{tmp_path}/n.ndn") as running:
        yield running


def _pkcs8(key: _Key) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _spki(key: _Key) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("kind", _KINDS)
async def test_python_ndn_registers_only_with_its_listed_key(
    node: tuple[_core.Node, str], kind: str
) -> None:
    engine, uri = node
    make, signer = _KINDS[kind]
    own = make()
    engine.authorise_commands([_core.SigningKey(kind, _KEY_NAME, _spki(own))])
    async with appv2(uri) as app:

        async def register(prefix: str, key: _Key) -> int:
            _, reply, _ = await app.express(
                make_command_v2("rib", "register", name=prefix),
                app_param=b"",
                signer=signer(_CERTIFICATE, _pkcs8(key)),
                validator=pass_all,
            )
            return int(parse_response(reply)["status_code"])

        assert await register("/mine", own) == 200
        assert await register("/stolen", make()) == 403
    assert engine.status()["management"]["forbidden"] == 1


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
async def test_ndnts_registers_with_its_ecdsa_key(node: tuple[_core.Node, str]) -> None:
    engine, uri = node
    async with NdntsPeer(uri, _KEY_NAME) as peer:
        engine.authorise_commands([_core.SigningKey("ecdsa", _KEY_NAME, peer.public_key)])
        await peer.do("serve", name="/theirs", version=1, text="theirs", chunk=1000)
        async with Client(uri) as other:
            assert (await other.express("/theirs/v=1/seg=0")).content == b"theirs"
            with pytest.raises(CommandRefused, match="403"):
                await other.register("/stolen", lambda _: None)
