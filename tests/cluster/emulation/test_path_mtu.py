"""How large datagrams may be between two machines."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from innet.cluster.emulation.path_mtu import drain, forbid_fragments, probed

LARGEST_BYTES = 64972


@contextmanager
def ends(family: int, address: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two UDP sockets that are not connected yet."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket(family, socket.SOCK_DGRAM)) for _ in range(2)]
        for end in made:
            end.setblocking(False)
            end.bind((address, 0))
            forbid_fragments(end)
        yield made[0], made[1]


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
async def test_both_ends_receive_the_largest_datagram(family: int, address: str) -> None:
    with ends(family, address) as (a, b):
        a.connect(b.getsockname())
        b.connect(a.getsockname())
        found = await asyncio.gather(probed({3: a}), probed({3: b}))
        assert list(found) == [{3: LARGEST_BYTES}] * 2
        drain(a)
        drain(b)
        for end in (a, b):
            with pytest.raises(BlockingIOError):
                end.recv(1)


async def test_a_path_that_drops_large_datagrams_silently_carries_the_usual_size_below() -> None:
    with ends(socket.AF_INET, "127.0.0.1") as (a, b), socket.socket(type=socket.SOCK_DGRAM) as path:
        path.setblocking(False)
        path.bind(("127.0.0.1", 0))
        for end in (a, b):
            end.connect(path.getsockname())
        opposite = {a.getsockname(): b.getsockname(), b.getsockname(): a.getsockname()}

        def forward() -> None:
            datagram, sender = path.recvfrom(1 << 16)
            if len(datagram) <= 1400 - 28:
                path.sendto(datagram, opposite[sender])

        asyncio.get_running_loop().add_reader(path, forward)
        found = await asyncio.gather(probed({0: a}, quiet_s=1.0), probed({0: b}, quiet_s=1.0))
        asyncio.get_running_loop().remove_reader(path)
        assert list(found) == [{0: 1400 - 28}] * 2


async def test_probing_waits_for_an_end_that_starts_late() -> None:
    """After its first datagram, only as long as there is news."""
    with ends(socket.AF_INET, "127.0.0.1") as (a, b):
        a.connect(b.getsockname())
        b.connect(a.getsockname())
        waiting = asyncio.ensure_future(probed({3: a}, first_s=60.0, quiet_s=0.0))
        loop = asyncio.get_running_loop()
        has_asked = asyncio.Event()
        loop.add_reader(b, has_asked.set)
        await has_asked.wait()
        loop.remove_reader(b)
        assert not waiting.done()
        assert await probed({3: b}, quiet_s=0.0) == {3: LARGEST_BYTES}
        assert await waiting == {3: LARGEST_BYTES}


async def test_an_absent_end_answers_no_probe() -> None:
    with ends(socket.AF_INET, "127.0.0.1") as (a, b):
        a.connect(b.getsockname())
        b.close()
        assert await probed({0: a}, first_s=0.3) == {0: 0}


class Rejected(socket.socket):
    """A socket on which the kernel reports what routers and firewalls answered to its datagrams."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_DGRAM)
        self.errors = [errno.EHOSTUNREACH, errno.EMSGSIZE, errno.ECONNREFUSED]

    def recv(self, size: int, flags: int = 0) -> bytes:
        if self.errors:
            raise OSError(self.errors.pop(), "answered by a router")
        return super().recv(size, flags)


async def test_probing_continues_after_icmp_errors_of_routers_and_firewalls() -> None:
    with ends(socket.AF_INET, "127.0.0.1") as (_, b), Rejected() as a:
        a.setblocking(False)
        a.bind(("127.0.0.1", 0))
        forbid_fragments(a)
        a.connect(b.getsockname())
        b.connect(a.getsockname())
        found = await asyncio.gather(probed({0: a}), probed({0: b}))
        assert list(found) == [{0: LARGEST_BYTES}] * 2
        a.errors = [errno.EHOSTUNREACH]
        drain(a)
