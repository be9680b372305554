"""Addresses of launchers: ``10.0.0.1:4711``, ``[2001:db8::1]:4711``, ``head.example.org``."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final

import psutil

from innet.errors import EmulationError

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_BRACKETED: Final = re.compile(r"\[(?P<host>[^\]]*)\](:(?P<port>.*))?")
_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; port 0 stands for any free one.

    >>> str(Address.parsed("2001:db8::1", default_port=4711))
    '[2001:db8::1]:4711'
    """

    host: str
    port: int

    @classmethod
    def parsed(cls, text: str, *, default_port: int = 0) -> Address:
        """Read ``HOST``, ``HOST:PORT``, ``IPV6`` or ``[IPV6]:PORT``; ``*`` is every address."""
        host, port = _split(text.strip())
        if port and (not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT):
            raise EmulationError(
                f"invalid port {port!r} in address {text!r}: expected a number from 0 to "
                f"{_MAX_PORT}, such as 10.0.0.1:4711"
            )
        if host == "*":
            host = "::"
        if not (_is_ip(host) or _HOST_NAME.fullmatch(host)):
            raise EmulationError(
                f"invalid address {text!r}: expected HOST[:PORT], such as 10.0.0.1, "
                "head.example.org:4711 or [2001:db8::1]:4711"
            )
        return cls(host, int(port) if port else default_port)

    @property
    def is_every(self) -> bool:
        """Whether this stands for all addresses of a machine."""
        return _is_ip(self.host) and ipaddress.ip_address(self.host).is_unspecified

    @property
    def endpoint(self) -> str:
        """The address as ZeroMQ takes it; port 0 as ``*``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port or '*'}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_towards(there: Address) -> str:
    """The IP address of this machine on the way to another one. Sends nothing.

    Raises:
        OSError: the name has no address, or there is no route.
    """
    found = socket.getaddrinfo(there.host, there.port, type=socket.SOCK_DGRAM)
    family, _, _, _, address = found[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def is_of_this_machine(address: str) -> bool:
    """Whether an IP address is one of this machine's own."""
    wanted = ipaddress.ip_address(address)
    own = (
        each.address
        for some in psutil.net_if_addrs().values()
        for each in some
        if _is_ip(each.address)
    )
    return wanted.is_loopback or wanted in map(ipaddress.ip_address, own)


def reachable_addresses(bound: Address) -> tuple[str, ...]:
    """The addresses at which other machines may reach a socket that is bound to ``bound``."""
    if not bound.is_every:
        return (str(bound),)
    families = (socket.AF_INET, socket.AF_INET6) if ":" in bound.host else (socket.AF_INET,)
    found = [
        Address(address.address, bound.port)
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in families and _reaches_far(address.address)
    ]
    return tuple(dict.fromkeys(str(address) for address in found))


async def obstacle_to(there: Address, name: str) -> str:
    """Why no TCP connection to an address was made, with the next step; found by another attempt.

    Args:
        there: with an IP address.
        name: the address as the user gave it.
    """
    where = f"`ip route get {there.host}` and `tracepath {there.host}` show the way"
    try:
        async with asyncio.timeout(_ATTEMPT_S):
            _, writer = await asyncio.open_connection(there.host, there.port)
            writer.close()
    except ConnectionRefusedError:
        return f"nobody listens on {name}. Is the network up there, and is that its port?"
    except TimeoutError:
        return (
            f"{name} does not answer: packets on the way there or back are lost. Is that machine "
            f"up, and does each firewall let the port through? {where}"
        )
    except OSError as error:
        return f"no route leads to {name}: {error.strerror}. {where}"
    return f"nobody listened on {name} a moment ago. Is the network starting there?"


_ATTEMPT_S: Final = 3.0


def _reaches_far(host: str) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    return not (address.is_loopback or address.is_link_local)


def _split(text: str) -> tuple[str, str]:
    if (bracketed := _BRACKETED.fullmatch(text)) is not None:
        return bracketed["host"], bracketed["port"] or ""
    if text.count(":") > 1:
        return text, ""
    host, _, port = text.partition(":")
    return host, port


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
