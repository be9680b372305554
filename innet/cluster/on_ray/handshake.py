"""The first contact with a Ray server: checks that it answers, and whether it uses TLS as we do.

Ray's own processes wait for minutes where one side uses TLS and the other one does not.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from typing import Final

from innet.cluster.machines.addresses import Address
from innet.errors import EmulationError

_TIMEOUT_S: Final = 5.0
_TLS_FILES: Final = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a client of gRPC begins: HTTP/2's preface, and a SETTINGS frame without settings."""
_FRAME_BYTES: Final = 9
_FRAME_TYPE: Final = 3
_SETTINGS: Final = 4
_VARIABLES: Final = ", ".join(("RAY_USE_TLS=1", *_TLS_FILES[:-1])) + f" and {_TLS_FILES[-1]}"


def require_server(
    server: Address, environment: Mapping[str, str] = os.environ, *, named: bool
) -> None:
    """Check that a server of gRPC listens, and uses TLS if ``environment`` says so.

    A server that is slow to answer passes. ``named``: its certificate has to be for its address.

    Raises:
        OSError: nothing listens there.
        EmulationError: one side uses TLS, and the other one does not or has a certificate that is
            not accepted.
    """
    context = _tls_context(environment)
    with socket.create_connection((server.host, server.port), timeout=_TIMEOUT_S) as connection:
        if context is None:
            obstacle = _plain_obstacle(connection)
        else:
            context.check_hostname = named
            obstacle = _tls_obstacle(connection, context, server.host)
    if obstacle:
        raise EmulationError(f"the Ray cluster at {server} {obstacle}")


def _tls_context(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS context that Ray's environment selects; ``None``: no TLS.

    Raises:
        EmulationError: the files that it names cannot be used.
    """
    if environment.get("RAY_USE_TLS", "").lower() not in ("1", "true"):
        return None
    for name in _TLS_FILES:
        path = environment.get(name, "")
        if not os.access(path, os.R_OK):
            raise EmulationError(
                f"RAY_USE_TLS is set, and {name} is {path!r}, which cannot be read. Set it to the "
                "file that the nodes of the Ray cluster use"
            )
    certificate, key, authority = (environment[name] for name in _TLS_FILES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise EmulationError(
            f"the files of {', '.join(_TLS_FILES)} are not a certificate, its key and an "
            f"authority in PEM: {_reason(error)}. Set them to the files that the nodes of the Ray "
            "cluster use"
        ) from error
    return context


def _plain_obstacle(connection: socket.socket) -> str:
    """Why a server does not speak HTTP/2 without TLS: its first frame is no SETTINGS frame."""
    try:
        connection.sendall(_PREFACE)
        # MSG_WAITALL does not wait on a socket with a timeout.
        with connection.makefile("rb") as received:
            answer = received.read(_FRAME_BYTES)
    except TimeoutError:
        return ""
    except ConnectionError:
        answer = b""
    if len(answer) == _FRAME_BYTES and answer[_FRAME_TYPE] == _SETTINGS:
        return ""
    return (
        "uses TLS, or is no server of Ray, and RAY_USE_TLS is not set here. Set "
        f"{_VARIABLES} as its nodes have them"
    )


def _tls_obstacle(connection: socket.socket, context: ssl.SSLContext, host: str) -> str:
    """Why a TLS connection fails, by this side or by the other one."""
    is_connected = False
    try:
        with context.wrap_socket(connection, server_hostname=host) as encrypted:
            is_connected = True  # a server of TLS 1.3 judges the client's certificate after that
            if not encrypted.recv(1):
                raise ConnectionError("it closed the connection")
    except TimeoutError:
        return ""
    except ssl.SSLCertVerificationError as error:
        return (
            f"has a certificate that is not valid here: {error.verify_message}. Set "
            "RAY_TLS_CA_CERT to the file that its nodes use, and name the cluster by an address "
            "that its certificate has"
        )
    except (ssl.SSLError, ConnectionError) as error:
        if is_connected or "ALERT" in str(error):
            return (
                f"does not accept this process's certificate: {_reason(error)}. Set "
                "RAY_TLS_SERVER_CERT and RAY_TLS_SERVER_KEY to files that its authority has signed"
            )
        return (
            f"does not use TLS, and RAY_USE_TLS is set here: {_reason(error)}. Unset RAY_USE_TLS, "
            "or start its nodes with it"
        )
    return ""


def _reason(error: OSError) -> str:
    """The text of a network or TLS error, without its numbers."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return error.strerror or str(error)
