"""Requests between members of a pool, on a link that an attacker without the secret sits on: he
evicts, pins and moves no block with packets that he makes, changes, repeats or keeps back."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from innet.kv.names import BlockFamily, BlockKey
from innet.kv.node_network import NetworkOptions, NodeBlockNetwork
from innet.kv.pool import BlockPool, MemoryTier, PoolSettings, TieredStore
from innet.kv.pool.network import Contents
from innet.kv.pool.requests import Action, Drop, Keep, Note, Pin, Unpin, name_of_action
from innet.kv.tenant import Tenant
from innet.kv.worker_network import LoopHost
from innet.observe.packets.layers import interest
from innet.observe.packets.outline import Outline
from innet.topology import load_topology
from innet.worker.collector import AskedObjects
from tests.collectives.cluster import Cluster

HOME, PRODUCER, OTHER = "h0", "h1", "h2"
TENANT = Tenant("acme", b"a secret that nobody on the way has")
STRANGER = Tenant("acme", b"the secret of somebody else")
FAMILY = BlockFamily(TENANT.component, "00ff", "raw", 0, 1)
BLOCK, LOOSE, SETTLED, ABSENT = (BlockKey(FAMILY, bytes([n]) * 32) for n in range(1, 5))
SETTINGS = PoolSettings(timeout_s=5.0, answer_s=0.05)
ROOT = "/32=manifest/seg=0"
ACTIONS: Sequence[Action] = (
    Drop(BLOCK),
    Unpin(BLOCK),
    Pin(LOOSE, 60_000),
    Keep(((ABSENT, 0),), PRODUCER),
    Note(ABSENT, 0, PRODUCER),
)


def contents(key: BlockKey) -> Contents:
    return np.full(2000, key.block_hash[0], np.uint8)


class OnPath:
    """Sees all packets of the home's link, and can add, keep back and repeat what it likes.

    Attributes:
        requests: names of requests to the home that were seen, without those of their packets.
        answered: names of the objects in Data that was seen.
        keeps_back: whether requests to the home are dropped.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answered: list[str] = []
        self.keeps_back = False
        self._to_send: list[bytes] = []
        self._nonce = 0

    def __call__(self, datagram: bytes) -> Sequence[bytes]:
        outline = Outline.of(datagram)
        name = (outline.uri or "").removesuffix(ROOT)
        if outline.kind == "data":
            self.answered.append(name)
        if outline.kind != "interest" or f"{TENANT.prefix}/" not in name:
            return [datagram]
        added, self._to_send = self._to_send, []
        if f"/request/{HOME}/" not in name:
            return [*added, datagram]
        self.requests.append(name)
        return added if self.keeps_back else [*added, datagram]

    def send(self, *names: str) -> None:
        """Send Interests for requests to the home, ahead of the next Interest of a member."""
        for name in names:
            self._nonce += 1
            packet = interest(name + ROOT, nonce=self._nonce, hints=[f"/n/{HOME}"])
            self._to_send.append(bytes(packet))

    def seen(self, verb: str) -> str:
        """The request with that verb that was seen last."""
        return next(name for name in reversed(self.requests) if f"/{verb}/" in name)


def proven(action: Action, tenant: Tenant, session: str, number: int = 1) -> str:
    """The name of a request with a proof by that tenant's key."""
    head, tail = f"{TENANT.prefix}/request/{HOME}/{PRODUCER}", name_of_action(action)
    numbers = f"{session}{7:016x}{number:08x}"
    untagged = f"{head}/{numbers}/{tail}"
    tag = hmac.digest(tenant.request_key, untagged.encode(), "sha256")[:16].hex()
    return f"{head}/{numbers}{tag}/{tail}"


def session_of(request: str) -> str:
    return request.split("/")[6][:16]


async def until(happened: Callable[[], bool]) -> None:
    """Wait for what packets bring about."""
    while not happened():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


class Pools:
    """The pools of three hosts, and who sits on the link of their home."""

    def __init__(self, on_path: OnPath, made: Mapping[str, BlockPool], memory: MemoryTier) -> None:
        self.on_path = on_path
        self.home, self.producer, self.other = (made[n] for n in (HOME, PRODUCER, OTHER))
        self._memory = memory
        self._pins = 0

    async def settle(self) -> None:
        """Wait until the home has handled all that was sent to it before."""
        self._pins += 1
        assert await self.other.pin([SETTLED], self._pins) == [True]

    def is_pinned(self, key: BlockKey) -> bool:
        entry = self._memory.entry(key.name)
        return entry is not None and entry.pinned


@asynccontextmanager
async def pools(process: int = 10) -> AsyncIterator[Pools]:
    """All blocks but ``ABSENT`` are put, which the producer alone has."""
    members, on_path = {HOME: 1 << 20}, OnPath()
    memory = {name: MemoryTier(members.get(name, 0)) for name in (HOME, PRODUCER, OTHER)}

    async def ask_members() -> Mapping[str, int]:
        return members

    with Cluster(load_topology("star:3"), tamper={(HOME, "s0"): on_path}) as cluster:
        cluster.nodes["s0"].install_job(TENANT.prefix, 1, None, [TENANT.public_key.native()])
        async with AsyncExitStack() as stack:
            made = {}
            for number, name in enumerate((HOME, PRODUCER, OTHER), process):
                node = cluster.nodes[name]
                host = LoopHost(node, AskedObjects(node))
                stack.callback(host.collector.close)
                options = NetworkOptions(packet_bytes=1400, process=number, distance=lambda _: 1)
                network = NodeBlockNetwork(name, host, TENANT, ask_members, options)
                await network.start()
                stack.push_async_callback(network.stop)
                made[name] = BlockPool(
                    network,
                    local=TieredStore(MemoryTier(0)),
                    offered=TieredStore(memory[name]),
                    settings=SETTINGS,
                )
                await stack.enter_async_context(made[name])
                if name == PRODUCER:
                    await network.publish(ABSENT.name, contents(ABSENT))
            for key in (BLOCK, LOOSE, SETTLED):
                assert await made[PRODUCER].put(key, contents(key)) == 1
            yield Pools(on_path, made, memory[HOME])


@pytest.mark.parametrize("kind", ["bare", "invented", "stranger"])
async def test_requests_without_the_tenant_s_key_change_nothing(kind: str) -> None:
    async with pools() as made:
        session = session_of(made.on_path.seen("keep"))
        assert await made.producer.pin([BLOCK], 60.0) == [True]
        head = f"{TENANT.prefix}/request/{HOME}/{PRODUCER}"
        forged = {
            "bare": [f"{head}/{n:x}/{name_of_action(a)}" for n, a in enumerate(ACTIONS)],
            "invented": [f"{head}/{session}{'1' * 56}/{name_of_action(a)}" for a in ACTIONS],
            "stranger": [proven(a, STRANGER, session, n) for n, a in enumerate(ACTIONS)],
        }[kind]
        proof = forged[0].split("/")[6]
        forged += [f"{head}/{proof}/summary/0", f"{head}/{proof}/session"]
        made.on_path.send(*forged)
        await made.settle()
        assert made.home.here(BLOCK)
        assert (made.is_pinned(BLOCK), made.is_pinned(LOOSE)) == (True, False)
        assert not made.home.here(ABSENT)
        assert not set(forged) & set(made.on_path.answered)


async def test_a_proof_by_the_tenant_s_key_is_what_is_missing() -> None:
    async with pools() as made:
        session = session_of(made.on_path.seen("keep"))
        made.on_path.send(proven(Drop(BLOCK), TENANT, session))
        await made.settle()
        assert not made.home.here(BLOCK)


async def test_a_request_that_was_recorded_is_not_executed_again() -> None:
    async with pools() as made:
        assert await made.producer.evict([BLOCK]) == [True]
        drop = made.on_path.seen("drop")
        for _ in range(2):  # while its answer is there, and when it has been withdrawn
            assert await made.producer.put(BLOCK, contents(BLOCK)) == 1
            made.on_path.send(*made.on_path.requests)
            await made.settle()
            assert made.home.here(BLOCK)
            await asyncio.sleep(2 * SETTINGS.answer_s)
        assert drop in made.on_path.requests


async def test_a_request_to_a_home_before_it_started_again_is_not_executed() -> None:
    async with pools(process=10) as before:
        assert await before.producer.evict([BLOCK]) == [True]
        recorded = before.on_path.requests
    async with pools(process=20) as made:
        made.on_path.send(*recorded)
        await made.settle()
        assert made.home.here(BLOCK)


async def test_a_request_that_was_kept_back_and_changed_is_not_executed() -> None:
    async with pools() as made:
        made.on_path.keeps_back = True
        evicting = asyncio.ensure_future(made.producer.evict([ABSENT]))
        await until(lambda: any("/drop/" in name for name in made.on_path.requests))
        made.on_path.keeps_back = False
        drop = made.on_path.seen("drop")
        parts = drop.split("/")
        digits = parts[6]
        others = [drop.replace(ABSENT.name.rpartition("/")[2], BLOCK.name.rpartition("/")[2])]
        for place in (0, 16, 32, 39, 40, len(digits) - 1):  # session, sender, number and tag
            digit = f"{int(digits[place], 16) ^ 1:x}"
            changed = digits[:place] + digit + digits[place + 1 :]
            others.append(others[0].replace(digits, changed))
        others += [others[0].replace(f"/{PRODUCER}/", f"/{OTHER}/"), others[0] + "/1"]
        made.on_path.send(*others)
        await made.settle()
        assert made.home.here(BLOCK)
        assert not set(others) & set(made.on_path.answered)
        await evicting


async def test_a_request_that_is_sent_many_times_is_executed_once() -> None:
    async with pools() as made:
        session = session_of(made.on_path.seen("keep"))
        kept = made.home.statistics().kept[PRODUCER]
        made.on_path.send(*[proven(Keep(((ABSENT, 0),), PRODUCER), TENANT, session)] * 20)
        await made.settle()
        await until(lambda: made.home.here(ABSENT))
        await made.settle()
        assert made.home.statistics().kept[PRODUCER] == kept + 1
