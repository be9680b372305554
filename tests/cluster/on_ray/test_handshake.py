"""What is said of a server that listens nowhere, or does not use TLS as this process does."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="gRPC is not installed: pip install 'innet[ray]'")

import grpc

from innet.cluster.machines.addresses import Address
from innet.cluster.on_ray.handshake import _plain_obstacle, require_server
from innet.errors import EmulationError
from tests.cluster.on_ray.certificates import certificates

TLS = {"RAY_USE_TLS": "1"}


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> dict[str, str]:
    return certificates(tmp_path_factory.mktemp("tls") / "own")


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> dict[str, str]:
    return certificates(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture(scope="module")
def plain() -> Iterator[Address]:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield Address("127.0.0.1", port)
    server.stop(0).wait()


@pytest.fixture(scope="module")
def encrypted(own) -> Iterator[Address]:
    """As Ray's servers, which want a certificate of their clients."""
    files = {name: Path(path).read_bytes() for name, path in own.items()}
    credentials = grpc.ssl_server_credentials(
        [(files["RAY_TLS_SERVER_KEY"], files["RAY_TLS_SERVER_CERT"])],
        root_certificates=files["RAY_TLS_CA_CERT"],
        require_client_auth=True,
    )
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_secure_port("0.0.0.0:0", credentials)
    server.start()
    yield Address("127.0.0.1", port)
    server.stop(0).wait()


def test_servers_with_the_same_tls_settings_pass(plain, encrypted, own) -> None:
    require_server(plain, {}, named=True)
    require_server(encrypted, TLS | own, named=True)
    elsewhere = Address("127.0.0.2", encrypted.port)  # which the certificate does not have
    require_server(elsewhere, TLS | own, named=False)


def test_a_server_whose_first_frame_arrives_in_parts_passes() -> None:
    client, server = socket.socketpair()

    def answer() -> None:
        for part in (bytes((0, 0, 0)), bytes((4, 0, 0, 0, 0, 0))):
            server.sendall(part)
            while _unread_bytes(client):  # the next part comes after the client has read this one
                pass

    with client, server:
        client.settimeout(5)
        answering = threading.Thread(target=answer)
        answering.start()
        obstacle = _plain_obstacle(client)
        while answering.is_alive():  # what a client that stopped early has not read
            if _unread_bytes(client):
                client.recv(9)
        assert obstacle == ""


def _unread_bytes(connection: socket.socket) -> int:
    (number,) = struct.unpack("i", fcntl.ioctl(connection, termios.FIONREAD, bytes(4)))
    return int(number)


def test_a_tls_server_is_reported_to_a_client_without_tls(encrypted) -> None:
    with pytest.raises(EmulationError, match=r"uses TLS, .* Set RAY_USE_TLS=1, RAY_TLS_SERVER_CER"):
        require_server(encrypted, {}, named=False)


def test_a_plain_server_is_reported_to_a_client_with_tls(plain, own) -> None:
    with pytest.raises(EmulationError, match=r"does not use TLS, and .* Unset RAY_USE_TLS"):
        require_server(plain, TLS | own, named=False)


def test_a_server_of_another_authority_or_name_is_reported(encrypted, own, other) -> None:
    with pytest.raises(EmulationError, match=r"not valid here: .* Set RAY_TLS_CA_CERT"):
        require_server(encrypted, TLS | other, named=False)
    with pytest.raises(EmulationError, match=r"not valid here: .*127.0.0.2"):
        require_server(Address("127.0.0.2", encrypted.port), TLS | own, named=True)


def test_a_refused_client_certificate_is_reported(encrypted, own, other) -> None:
    mixed = TLS | other | {"RAY_TLS_CA_CERT": own["RAY_TLS_CA_CERT"]}
    with pytest.raises(EmulationError, match="does not accept this process's certificate"):
        require_server(encrypted, mixed, named=False)


def test_files_without_certificates_are_reported(plain, own) -> None:
    mixed = TLS | own | {"RAY_TLS_SERVER_CERT": own["RAY_TLS_SERVER_KEY"]}
    with pytest.raises(EmulationError, match="are not a certificate, its key and an authority"):
        require_server(plain, mixed, named=False)


def test_unreadable_certificates_are_named(plain, own, tmp_path) -> None:
    none = tmp_path / "none"
    with pytest.raises(EmulationError, match=r"RAY_TLS_SERVER_KEY is '.*none', which cannot be"):
        require_server(plain, TLS | own | {"RAY_TLS_SERVER_KEY": str(none)}, named=False)
