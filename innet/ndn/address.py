"""Addresses of NDN forwarders as NDN programs write them: face URIs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from innet.errors import NoForwarder

INNET_VARIABLE = "INNET_NDN"
"""Set by a launcher for the processes of its jobs: their node's address."""
NDN_VARIABLE = "NDN_CLIENT_TRANSPORT"
"""Set by a user for all NDN programs, of any implementation."""
DEFAULT = "unix:///run/nfd/nfd.sock"
NDN_PORT = 6363

Scheme = Literal["unix", "tcp", "udp"]
_SCHEMES: Mapping[str, Scheme] = {
    "unix": "unix",
    "tcp": "tcp",
    "tcp4": "tcp",
    "tcp6": "tcp",
    "udp": "udp",
    "udp4": "udp",
    "udp6": "udp",
}


@dataclass(frozen=True)
class FaceAddress:
    """A parsed face URI.

    Attributes:
        scheme: ``unix``, ``tcp`` or ``udp``.
        path: of the socket; empty unless the scheme is ``unix``.
        host: name or address; empty when the scheme is ``unix``.
        port: likewise 0.
    """

    scheme: Scheme
    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, uri: str) -> FaceAddress:
        """Read ``unix:///run/nfd/nfd.sock``, ``tcp://router.example:6363`` or ``udp4://10.0.0.1``.

        Raises:
            NoForwarder: this is no such URI.
        """
        try:
            parts = urlsplit(uri)
            scheme = _SCHEMES.get(parts.scheme)
            port = parts.port
        except ValueError:
            scheme = port = None
        if scheme == "unix" and parts.path:
            return cls("unix", path=parts.path)
        if scheme in ("tcp", "udp") and parts.hostname:
            return cls(scheme, host=parts.hostname, port=port or NDN_PORT)
        raise NoForwarder(
            f"{uri!r} is not an address of a forwarder; write unix:///path/of/its.sock, "
            "tcp://host:6363 or udp://host:6363"
        )

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def default_address() -> FaceAddress:
    """The forwarder of this process: its node's in a job, else the one that NDN programs share.

    Raises:
        NoForwarder: a variable says something that is not an address.
    """
    for variable in (INNET_VARIABLE, NDN_VARIABLE):
        if uri := os.environ.get(variable):
            return FaceAddress.parse(uri)
    return FaceAddress.parse(DEFAULT)
