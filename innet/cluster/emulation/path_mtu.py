"""Finds the largest datagrams between two machines, by sending some in both directions.

The kernel knows the MTU of its own route. It learns of a smaller MTU on the path from ICMP
messages, which firewalls may drop. So both ends of each link send datagrams of the usual sizes that
must not be fragmented, until each has received the largest that the other can send, or a timeout
ends the probe. The largest received datagram decides.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from innet.node.node_config import IP_UDP_HEADER_BYTES, IPV6_UDP_HEADER_BYTES

_FIRST_S: Final = 12.0
"""How long the other end may take to begin, for example on a busy machine."""
_QUIET_S: Final = 5.0
"""Without news after the first, larger datagrams do not pass."""
_LONGEST_S: Final = 18.0
"""Less than the launcher waits for an answer."""
_INTERVAL_S: Final = 0.05
_USUAL_MTUS: Final = (9000, 1500, 1492, 1400, 1280, 576)
_LARGEST_DATAGRAM_BYTES: Final = 64972
"""Largest datagram with an MTU of 65000, the largest of a topology."""
_MAGIC: Final = b"innet path probe"
_PROBE: Final = struct.Struct("!16sIII")
"""Magic, the link's number, the sender's own limit, the largest probe that it has received."""

# Linux's numbers, which Python's socket lacks.
_OPTIONS: Final = {
    # family: level, option to forbid fragments, option with the route's MTU, bytes of headers
    socket.AF_INET: (socket.IPPROTO_IP, 10, 14, IP_UDP_HEADER_BYTES),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 24, IPV6_UDP_HEADER_BYTES),
}
_NEVER_FRAGMENT: Final = 2

_ICMP_ERRORS: Final = frozenset(
    {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EMSGSIZE}
    | {errno.EHOSTDOWN, errno.ENOPROTOOPT, errno.EPROTO, errno.EACCES, errno.EOPNOTSUPP}
)
"""Errors that the kernel reports once on a connected socket, as after a firewall's rejection."""


def forbid_fragments(link: socket.socket) -> None:
    """Let a UDP socket send whole datagrams only."""
    level, discover, _, _ = _OPTIONS[link.family]
    link.setsockopt(level, discover, _NEVER_FRAGMENT)


def largest_datagram_bytes(link: socket.socket) -> int:
    """The largest UDP payload that the route of a connected socket takes, as the kernel knows."""
    level, _, mtu, headers_bytes = _OPTIONS[link.family]
    route_bytes = link.getsockopt(level, mtu) - headers_bytes
    return min(route_bytes, _LARGEST_DATAGRAM_BYTES)


class _Probe:
    """One end of a link."""

    def __init__(self, number: int, link: socket.socket) -> None:
        self.link = link
        self.received_bytes = 0
        self._number = number
        self._peer_limit_bytes = 0
        self._peer_received_bytes = 0
        _, _, _, self._headers_bytes = _OPTIONS[link.family]

    @property
    def is_done(self) -> bool:
        """Whether both ends have received the largest datagram that both can send."""
        most_bytes = min(largest_datagram_bytes(self.link), self._peer_limit_bytes)
        received_bytes = min(self.received_bytes, self._peer_received_bytes)
        return 0 < most_bytes <= received_bytes

    def send(self) -> None:
        """Send a datagram of each size."""
        own_bytes = largest_datagram_bytes(self.link)
        usual = (mtu - self._headers_bytes for mtu in _USUAL_MTUS)
        for size in (own_bytes, *(size for size in usual if size < own_bytes)):
            probe = _PROBE.pack(_MAGIC, self._number, own_bytes, self.received_bytes)
            try:
                self.link.send(probe.ljust(size, b"\0"))
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    return
                # The kernel has learned of a smaller MTU, or the other end is not open yet.

    def receive(self) -> bool:
        """Read the received datagrams; return whether they have news."""
        before = self._state()
        for datagram in _received(self.link, 1 << 16):
            self._take(datagram)
        return self._state() != before

    def _state(self) -> tuple[int, int, int]:
        return self.received_bytes, self._peer_limit_bytes, self._peer_received_bytes

    def _take(self, probe: bytes) -> None:
        if len(probe) < _PROBE.size:
            return
        magic, number, limit_bytes, received_bytes = _PROBE.unpack_from(probe)
        if magic == _MAGIC and number == self._number:
            self.received_bytes = max(self.received_bytes, len(probe))
            self._peer_limit_bytes = limit_bytes
            self._peer_received_bytes = max(self._peer_received_bytes, received_bytes)


async def probed(
    links: Mapping[int, socket.socket], first_s: float = _FIRST_S, quiet_s: float = _QUIET_S
) -> dict[int, int]:
    """The largest datagram that each link's end has received; 0: none came.

    Both ends of each link have to be probed at the same time. The smaller one of both results is
    the size that passes in both directions.

    Args:
        links: connected sockets that nobody reads meanwhile, by the numbers of their links.
        first_s: how long to wait for the first datagram of an end.
        quiet_s: how long to wait for a larger one then.
    """
    probes = [_Probe(number, link) for number, link in links.items()]
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    until_s = dict.fromkeys(probes, begun_s + first_s)
    waiting = list(probes)
    while waiting := [probe for probe in waiting if loop.time() < until_s[probe]]:
        for probe in waiting:
            probe.send()
        await _readable_or_later([probe.link for probe in waiting])
        news = [probe for probe in waiting if probe.receive()]
        if not news:
            await asyncio.sleep(_INTERVAL_S)  # readable with an error, perhaps
        for probe in news:
            until_s[probe] = min(begun_s + _LONGEST_S, loop.time() + quiet_s)
        done = [probe for probe in waiting if probe.is_done]
        for probe in done:
            probe.send()  # with what it has received, which the other end waits for
        waiting = [probe for probe in waiting if probe not in done]
    return {number: probe.received_bytes for number, probe in zip(links, probes, strict=True)}


async def _readable_or_later(links: Sequence[socket.socket]) -> None:
    """Wait until a socket is readable, at most for the interval between two probes."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    set_readable: Callable[[], None] = readable.set
    for link in links:
        loop.add_reader(link, set_readable)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(readable.wait(), _INTERVAL_S)
    finally:
        for link in links:
            loop.remove_reader(link)


def drain(link: socket.socket) -> None:
    """Drop all received datagrams, such as late probes of the other end."""
    for _ in _received(link, 1):
        pass


def _received(link: socket.socket, most_bytes: int) -> Iterator[bytes]:
    """The datagrams that have arrived."""
    while True:
        try:
            datagram = link.recv(most_bytes, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in _ICMP_ERRORS:
                raise
        else:
            yield datagram
