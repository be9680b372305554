"""Blocks between real nodes over a link that somebody sits on: right bytes or none, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.pool import BlockPool, Cause, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Contents
from innet.kv.tenant import Tenant
from innet.kv.worker_network import LoopHost
from innet.topology import load_topology
from innet.worker.collector import AskedObjects
from tests.collectives.cluster import Cluster, Tamper

HOME, ASKER, OTHER = "h0", "h1", "h2"
TENANT = Tenant("acme", b"a secret that nobody on the way has")
FAMILY = BlockFamily(TENANT.component, "00ff", "raw", 0, 1)
BLOCK, ANOTHER = (BlockKey(FAMILY, bytes([number]) * 32) for number in (1, 2))
BLOCK_BYTES = 20_000
SETTINGS = PoolSettings(timeout_s=0.3, leave_out_s=0.01)


def contents(key: BlockKey) -> Contents:
    seed = key.block_hash[0]
    return np.random.default_rng(seed).integers(0, 256, BLOCK_BYTES, np.uint8)


def is_data(datagram: bytes) -> bool:
    return datagram[:1] == b"\x06"


def flipped(datagram: bytes) -> bytes:
    """A bit is another in the middle of Data: in the contents, where there are some."""
    if not is_data(datagram):
        return datagram
    damaged = bytearray(datagram)
    damaged[len(damaged) // 2] ^= 1
    return bytes(damaged)


def truncated(datagram: bytes) -> bytes:
    """The last byte of Data is missing."""
    return datagram[:-1] if is_data(datagram) else datagram


def anothers(datagram: bytes) -> bytes:
    """Whoever asks for :data:`BLOCK` gets :data:`ANOTHER`, under the name that was asked for."""
    names = [key.block_hash.hex().encode() for key in (BLOCK, ANOTHER)]
    return datagram.replace(*(reversed(names) if is_data(datagram) else names))


def without_signature(datagram: bytes) -> bytes:
    """Signatures are all zeros."""
    return datagram[:-32] + bytes(32) if is_data(datagram) else datagram


class Poisoner:
    """Sits on a link, and passes everything on as it came until it is told to poison it.

    Attributes:
        poison: what is passed on in place of a packet.
        spares_manifests: manifests are passed on as they came, so that what they list is asked for.
    """

    def __init__(self, *, spares_manifests: bool) -> None:
        self.poison: Callable[[bytes], bytes] | None = None
        self.spares_manifests = spares_manifests
        self.poisoned = 0

    def __call__(self, datagram: bytes) -> Sequence[bytes]:
        if self.poison is None or (self.spares_manifests and b"manifest" in datagram):
            return [datagram]
        passed_on = self.poison(datagram)
        self.poisoned += passed_on != datagram
        return [passed_on]


@asynccontextmanager
async def pools(tamper: dict[tuple[str, str], Tamper]) -> AsyncIterator[Mapping[str, BlockPool]]:
    """The pools of three hosts, of which one is home to all blocks."""
    members = {HOME: 1 << 20}

    async def ask_members() -> Mapping[str, int]:
        return members

    with Cluster(load_topology("star:3"), tamper=tamper) as cluster:
        cluster.nodes["s0"].install_job(TENANT.prefix, 1, None, [TENANT.public_key.native()])
        async with AsyncExitStack() as stack:
            made: dict[str, BlockPool] = {}
            for name in (HOME, ASKER, OTHER):
                node = cluster.nodes[name]
                host = LoopHost(node, AskedObjects(node))
                stack.callback(host.collector.close)
                network = NodeBlockNetwork(
                    name,
                    host,
                    TENANT,
                    ask_members,
                    NetworkOptions(
                        weight=1, packet_bytes=1400, process=len(made), distance=lambda _: 1
                    ),
                )
                await network.start()
                stack.push_async_callback(network.stop)
                made[name] = BlockPool(
                    network,
                    local=TieredStore(MemoryTier(0)),
                    offered=TieredStore(MemoryTier(members.get(name, 0))),
                    settings=SETTINGS,
                )
                await stack.enter_async_context(made[name])
            yield made


@pytest.mark.parametrize("link", [(HOME, "s0"), (ASKER, "s0")], ids=["home", "asker"])
@pytest.mark.parametrize("spares_manifests", [False, True], ids=["all", "segments"])
@pytest.mark.parametrize("poison", [flipped, truncated, anothers, without_signature])
async def test_what_is_changed_on_the_way_is_missed_and_comes_when_it_is_not(
    poison: Callable[[bytes], bytes], link: tuple[str, str], *, spares_manifests: bool
) -> None:
    poisoner = Poisoner(spares_manifests=spares_manifests)
    async with pools({link: poisoner}) as made:
        for key in (BLOCK, ANOTHER):
            assert await made[HOME].put(key, contents(key)) == 1
        poisoner.poison = poison
        assert await made[ASKER].get(BLOCK) is None
        assert poisoner.poisoned > 0
        # A home that is asked for another block's packet has none of it.
        (cause,) = made[ASKER].statistics().misses
        assert cause is Cause.LATE or (poison is anothers and cause is Cause.ABSENT)
        # No cache on the way has kept any of it.
        poisoner.poison = None
        for asker in (ASKER, OTHER):
            found = await made[asker].get(BLOCK, timeout_s=10)
            assert found is not None
            assert np.array_equal(found, contents(BLOCK))


async def test_who_puts_while_nothing_gets_through_is_told_when_the_pool_is_closed() -> None:
    async with pools({(HOME, "s0"): lambda datagram: []}) as made:
        putting = asyncio.ensure_future(made[ASKER].put(BLOCK, contents(BLOCK)))
        await asyncio.sleep(0)
        await made[ASKER].close()
        with pytest.raises(KVError, match="closed"):
            await putting
