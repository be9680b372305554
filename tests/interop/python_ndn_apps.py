"""python-ndn's applications, both kinds, connected to a node of ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ndn.app import NDNApp as OlderApp
from ndn.app_support.nfd_mgmt import make_command_v2, parse_response
from ndn.appv2 import NDNApp, pass_all
from ndn.encoding import Component, FormalName, Name
from ndn.security import KeychainDigest
from ndn.security.signer import DigestSha256Signer, HmacSha256Signer
from ndn.transport.stream_face import TcpFace, UnixFace
from ndn.transport.udp_face import UdpFace

from innet.ndn.address import FaceAddress
from tests.interop.nodes import OPERATOR, OPERATOR_SECRET, Route

SEGMENT_BYTES = 1000


def face_to(uri: str) -> Any:
    """python-ndn's face to the node at ``uri``."""
    address = FaceAddress.parse(uri)
    if address.scheme == "unix":
        return UnixFace(address.path)
    kind = TcpFace if address.scheme == "tcp" else UdpFace
    return kind(address.host, address.port)


@asynccontextmanager
async def appv2(uri: str) -> AsyncIterator[NDNApp]:
    """An application of the current interface."""
    app = NDNApp(face=face_to(uri))
    async with _running(app):
        yield app


@asynccontextmanager
async def older_app(uri: str) -> AsyncIterator[OlderApp]:
    """An application of the interface that came before."""
    app = OlderApp(face=face_to(uri), keychain=KeychainDigest())
    async with _running(app):
        yield app


@asynccontextmanager
async def _running(app: Any) -> AsyncIterator[None]:
    started = asyncio.Event()

    async def tell() -> None:
        started.set()

    loop = asyncio.create_task(app.main_loop(tell()))
    await started.wait()
    try:
        yield
    finally:
        app.shutdown()
        await loop


class _CommandSigner(HmacSha256Signer):
    """python-ndn's, which also tells the time, as a key's commands must."""

    def write_signature_info(self, signature_info: Any) -> None:
        super().write_signature_info(signature_info)
        signature_info.signature_time = time.time_ns() // 1_000_000
        signature_info.signature_nonce = time.time_ns() % 2**64


async def register(app: NDNApp | OlderApp, route: Route, verb: str = "register") -> bool:
    """Tell the node of what the application serves: by its own call where that is obeyed.

    Over TCP and UDP a command needs a listed key, which neither interface's own call signs with.
    """
    older = isinstance(app, OlderApp)
    if not route.over_ip:
        if verb == "unregister":
            return bool(await app.unregister(route.prefix))
        return bool(
            await (app.register(route.prefix, None) if older else app.register(route.prefix))
        )
    name = make_command_v2("rib", verb, name=route.prefix)
    signer = _CommandSigner(OPERATOR, OPERATOR_SECRET)
    if older:
        _, _, content = await app.express_interest(name, app_param=b"", signer=signer)
    else:
        _, content, _ = await app.express(name, pass_all, app_param=b"", signer=signer)
    return int(parse_response(content)["status_code"]) == 200


def serve_segments(app: NDNApp, name: str, version: int, content: bytes) -> FormalName:
    """Answer for a versioned object in segments, as programs did before RDR metadata."""
    versioned = [*Name.from_str(name), Component.from_version(version)]
    last = max(0, (len(content) - 1) // SEGMENT_BYTES)

    def serve(asked: FormalName, _parameters: Any, reply: Any, _context: Any) -> None:
        is_segment = len(asked) == len(versioned) + 1
        segment = Component.to_number(asked[-1]) if is_segment else 0
        if asked[: len(versioned)] != versioned[: len(asked)] or segment > last:
            return
        reply(
            app.make_data(
                [*versioned, Component.from_segment(segment)],
                content[segment * SEGMENT_BYTES : (segment + 1) * SEGMENT_BYTES],
                DigestSha256Signer(),
                freshness_period=10_000,
                final_block_id=Component.from_segment(last),
            )
        )

    app.attach_handler(name, serve)
    return versioned


async def ask(app: NDNApp, name: str, **options: Any) -> tuple[str, bytes]:
    """Name and content of what answers an Interest of the current interface."""
    found, content, _ = await app.express(name, validator=pass_all, lifetime=4000, **options)
    return Name.to_str(found), bytes(content or b"")
