"""A web page in a browser of this machine sends arbitrary bytes to a forwarder's TCP port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet._native import _core
from innet.errors import CommandRefused
from innet.ndn import Client, HmacSigner, Name, encode_data
from innet.ndn.control import ControlParameters, command_name
from innet.ndn.face import StreamFramer
from innet.ndn.wire import encode_interest, parse_data
from innet.node.forwarder import Forwarder, ForwarderOptions
from innet.security.signers import DigestSigner, Signer

_SECRET = b"a secret of thirty-two bytes ..."
_KEY = "/op/KEY/1"
_FORBIDDEN = b"\x66\x02\x01\x93"
"""The StatusCode 403 of a ControlResponse."""


@pytest.fixture
def forwarder(tmp_path: Path) -> Iterator[Forwarder]:
    """As ``innet forwarder`` without options, but for the ports."""
    listeners = [f"unix://{tmp_path}/f.sock", "tcp4://127.0.0.1:0", "udp4://127.0.0.1:0"]
    with Forwarder(ForwarderOptions(listeners)) as running:
        yield running


def registration(signer: Signer | None = None) -> bytes:
    """A command that steals ``/bank``, signed by its digest unless told otherwise."""
    name = command_name("rib", "register", ControlParameters(name=Name("/bank")))
    return encode_interest(name, signer=signer or DigestSigner())


def connected(forwarder: Forwarder) -> socket.socket:
    """To the TCP port, as the browser is."""
    port = int(forwarder.listeners[1].rsplit(":", 1)[1])
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def all_that_is_answered(connection: socket.socket) -> bytes:
    """Until the forwarder closes the connection; the test's timeout ends one that it keeps."""
    received = b""
    try:
        while part := connection.recv(1 << 16):
            received += part
    except ConnectionResetError:  # it did not read what was sent after the first bad byte
        pass
    return received


def obeyed(forwarder: Forwarder) -> int:
    """Routes that commands have made."""
    return int(forwarder.node.status()["management"]["routes"])


def counted(forwarder: Forwarder, name: str) -> int:
    """Closed connections, by the reason."""
    return int(forwarder.node.status()["node"][name])


def post(body: bytes) -> bytes:
    """What a browser sends for a form or ``fetch`` without a preflight."""
    return (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1:6363\r\nContent-Type: text/plain\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    ) + body


def test_an_http_post_with_a_command_in_its_body_is_closed_and_not_executed(
    forwarder: Forwarder,
) -> None:
    with connected(forwarder) as page:
        page.sendall(post(registration()))
        assert all_that_is_answered(page) == b""
    assert obeyed(forwarder) == 0
    assert counted(forwarder, "foreign_protocol") == 1


@pytest.mark.parametrize("kind", [0x01, 0x07, 0x50, 0x63, 0x65, 0x80])
def test_no_element_of_another_type_is_skipped_to_find_a_command(
    forwarder: Forwarder, kind: int
) -> None:
    with connected(forwarder) as page:
        page.sendall(_core.encode_element(kind, b"junk") + registration())
        assert all_that_is_answered(page) == b""
    assert obeyed(forwarder) == 0
    assert counted(forwarder, "foreign_protocol") == 1


def test_a_request_that_begins_like_a_link_packet_is_closed_at_the_malformed_packet(
    forwarder: Forwarder,
) -> None:
    # After DNS rebinding, a page chooses the method: "d" is the type of an LpPacket, "P" that of
    # its fragment, "b" and "`" are their lengths.
    request = (b"dbP`" + b"A" * 0x60).ljust(2 + ord("b"), b"A")
    with connected(forwarder) as page:
        page.sendall(request + registration())
        assert all_that_is_answered(page) == b""
    assert obeyed(forwarder) == 0
    assert counted(forwarder, "sent_malformed") == 1


def test_ndn_clients_over_tcp_or_udp_need_a_key_to_command(forwarder: Forwarder) -> None:
    async def run() -> None:
        for uri in forwarder.listeners[1:]:
            async with Client(uri) as client:
                with pytest.raises(CommandRefused, match="Unix socket"):
                    await client.register("/bank", lambda _: None)

    asyncio.run(run())
    assert obeyed(forwarder) == 0
    management = forwarder.node.status()["management"]
    assert management["keyless"] == management["forbidden"] == 2


def test_a_listed_key_can_command_over_tcp(forwarder: Forwarder) -> None:
    forwarder.node.authorise_commands([_core.SigningKey("hmac", _KEY, _SECRET)])

    async def run() -> None:
        operator = HmacSigner(_KEY, _SECRET)
        async with Client(forwarder.listeners[1], command_signer=operator) as client:
            await client.register("/mine", lambda _: None)

    with connected(forwarder) as page:
        asyncio.run(run())
        page.sendall(registration())
        assert _FORBIDDEN in page.recv(1 << 16)
    assert counted(forwarder, "foreign_protocol") == 0


def test_programs_can_fetch_data_over_tcp(forwarder: Forwarder) -> None:
    async def run() -> bytes:
        unix, tcp, _ = forwarder.listeners
        async with Client(unix) as producer, Client(tcp) as consumer:
            await producer.register("/hello", lambda asked: encode_data(asked.name, b"world"))
            return (await consumer.express("/hello/1", deadline_s=30)).content

    assert asyncio.run(run()) == b"world"


def test_local_tools_command_over_the_unix_socket_without_a_key(forwarder: Forwarder) -> None:
    with socket.socket(socket.AF_UNIX) as tool:
        tool.settimeout(30)
        tool.connect(forwarder.listeners[0].removeprefix("unix://"))
        tool.sendall(registration())
        framer = StreamFramer()
        while not (answers := framer.feed(tool.recv(1 << 16))):
            pass
    assert b"Success" in parse_data(answers[0]).content


@pytest.mark.parametrize(("asked", "mode"), [(None, None), (0o660, 0o660)])
def test_the_unix_socket_belongs_to_its_owner_unless_root_serves_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: int | None, mode: int | None
) -> None:
    path = tmp_path / "own.sock"
    options = ForwarderOptions([f"unix://{path}"], unix_permissions=asked)
    for user, default in ((0, 0o666), (1000, 0o600)):
        with monkeypatch.context() as patched:
            patched.setattr("innet.node.forwarder.os.geteuid", lambda user=user: user)
            with Forwarder(options):
                assert path.stat().st_mode & 0o777 == (mode or default)
