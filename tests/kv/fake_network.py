"""Several nodes of a pool in one process and in virtual time, which fail as a test wants."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from innet.errors import KVError
from innet.kv.pool.network import Cause, Contents, KeepOptions, NetworkEvent, Sealed
from innet.kv.pool.requests import MAX_KEPT_AT_ONCE, requests_prefix
from innet.kv.pool_member import PoolMember
from innet.kv.pool_options import MemberOptions
from innet.lab.simulation.event_loop import VirtualTimeLoop

Result = TypeVar("Result")

TENANT = "a1b2"
HOP_S = 0.001


class VirtualTime:
    """An event loop whose clock goes on when nothing else is left to do; waiting for what can never
    happen is an error."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._loop = VirtualTimeLoop(lambda: self._now_s, self._advance)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of ``work``."""
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """End all that is still under way."""
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _advance(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            raise AssertionError("everything waits, and nothing is left to happen")
        self._now_s += timeout_s


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of ``work`` in virtual time."""
    time = VirtualTime()
    try:
        return time.run(work)
    finally:
        time.close()


@dataclass
class Node:
    """What a node serves, and how it is.

    Attributes:
        serves: blocks by their names.
        expected: names that will be published or withdrawn.
        withdrawals: of each name; who waited before one is refused, whatever is expected after it.
        alive: whether it answers at all; one that does not is late.
        reachable: whether a path leads to it.
        forges: whether what it gives is not what was signed.
        breaks: whether its own fetches end in an error that nobody expects.
        fetched: names that others have got from it.
    """

    serves: dict[str, Sealed] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    withdrawals: Counter[str] = field(default_factory=Counter)
    asked: list[NetworkEvent] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    alive: bool = True
    reachable: bool = True
    forges: bool = False
    breaks: bool = False
    closed: bool = False
    fetched: list[str] = field(default_factory=list)

    def change(self) -> None:
        """Wake whoever waits for something of this node."""
        self.changed.set()
        self.changed = asyncio.Event()


class FakeFabric:
    """All nodes.

    Attributes:
        tenant: whose blocks they have.
        nodes: by name.
        members: those that offer memory, and bytes of each.
        distances: of members from any node, where it is not 1.
        joined: nodes of :meth:`member`, once their networks are asked for.
    """

    def __init__(
        self, members: Mapping[str, int], others: tuple[str, ...] = (), tenant: str = TENANT
    ) -> None:
        self.tenant = tenant
        self.members = dict(members)
        self.distances: dict[str, int] = {}
        self.joined: list[str] = []
        self.nodes = {name: Node() for name in (*members, *others)}

    def member(self, node: str, options: MemberOptions) -> PoolMember:
        """A member with a thread of its own."""

        def join(_capacity_bytes: int, _replicas: int) -> nullcontext[FakeNetwork]:
            self.joined.append(node)
            return nullcontext(self.network(node))

        return PoolMember(join, options, tenant=self.tenant, node=node)

    def network(self, node: str) -> FakeNetwork:
        """The network as ``node`` sees it."""
        return FakeNetwork(self, node)


class FakeNetwork:
    """See :class:`innet.kv.pool.network.BlockNetwork`."""

    def __init__(self, fabric: FakeFabric, node: str) -> None:
        self.node = node
        self.tenant = fabric.tenant
        self.most_kept_at_once = MAX_KEPT_AT_ONCE
        self._fabric = fabric
        self._own = fabric.nodes[node]
        self._nonces = itertools.count()

    def members(self) -> Mapping[str, int]:
        return dict(self._fabric.members)

    def distance(self, member: str) -> int:
        return self._fabric.distances.get(member, 1)

    async def publish(self, name: str, contents: Contents) -> Sealed:
        self._require_open()
        await asyncio.sleep(0)
        block = Sealed(contents, _signed(name, contents))
        self._serve(name, block)
        return block

    async def publish_together(
        self, names: Sequence[str], contents: Sequence[Contents]
    ) -> list[Sealed]:
        return [await self.publish(*block) for block in zip(names, contents, strict=True)]

    async def publish_sealed(self, name: str, block: Sealed) -> Sealed | None:
        self._require_open()
        await asyncio.sleep(0)
        if block.root != _signed(name, block.contents):
            return None
        self._serve(name, block)
        return block

    def expect(self, name: str) -> None:
        self._own.expected.add(name)

    def withdraw(self, name: str) -> None:
        self._own.serves.pop(name, None)
        self._own.expected.discard(name)
        self._own.withdrawals[name] += 1
        self._own.change()

    def end_serving(self, names: Sequence[str]) -> None:
        for name in names:
            self._own.serves.pop(name, None)

    async def request(
        self, member: str, action: str, timeout_s: float, attached: Sequence[str] = ()
    ) -> Sealed | Cause:
        nonce = f"{next(self._nonces):x}"
        name = f"{requests_prefix(self.tenant, member)}/{self.node}/{nonce}/{action}"
        return await self.fetch(name, member, timeout_s)

    async def fetch(self, name: str, source: str, timeout_s: float) -> Sealed | Cause:
        if self._own.breaks:
            raise OSError("no memory is left")
        try:
            async with asyncio.timeout(timeout_s):
                block = await self._answer(name, source)
        except TimeoutError:
            return Cause.LATE
        if isinstance(block, Cause):
            return block
        self._fabric.nodes[source].fetched.append(name)
        contents = block.contents.copy()
        if self._fabric.nodes[source].forges:
            contents[0] ^= 1
        if block.root != _signed(name, contents):
            return Cause.UNTRUSTED
        return Sealed(contents, block.root)

    async def fetch_together(
        self, names: Sequence[str], source: str, timeout_s: float
    ) -> list[Sealed | Cause]:
        return await asyncio.gather(*(self.fetch(name, source, timeout_s) for name in names))

    async def probe(self, name: str, source: str, timeout_s: float) -> Cause | None:
        try:
            async with asyncio.timeout(timeout_s):
                found = await self._answer(name, source)
        except TimeoutError:
            return Cause.LATE
        return found if isinstance(found, Cause) else None

    def empty_cache(self) -> None:
        """It has none."""

    def start_keeping(self, options: KeepOptions) -> None:
        """It leaves all to its node."""

    def adopt(self, name: str) -> None:
        """It keeps nothing by itself."""

    def grant_room(self, room_bytes: int) -> None:
        """It keeps nothing by itself."""

    def stop_keeping(self) -> None:
        """It keeps nothing by itself."""

    async def next_events(self) -> list[NetworkEvent]:
        while not self._own.asked:
            self._require_open()
            await self._own.changed.wait()
        self._require_open()
        return self.take_events()

    def take_events(self) -> list[NetworkEvent]:
        asked, self._own.asked = self._own.asked, []
        return asked

    async def _answer(self, name: str, source: str) -> Sealed | Cause:
        await asyncio.sleep(HOP_S)
        node = self._fabric.nodes.get(source)
        if node is None or not node.reachable or not self._own.reachable:
            return Cause.UNREACHABLE
        if "/request/" in name or name in node.serves or name in node.expected:
            node.asked.append(name)
            node.change()
        withdrawals = node.withdrawals[name]
        while name not in node.serves or not node.alive:
            is_refused = node.withdrawals[name] > withdrawals
            waits = name in node.expected or "/request/" in name
            if node.alive and (is_refused or not waits):
                return Cause.ABSENT
            await node.changed.wait()
        block = node.serves[name]
        await asyncio.sleep(HOP_S)
        return block

    def _serve(self, name: str, block: Sealed) -> None:
        if name in self._own.serves:
            raise KVError(f"{name} is published already")
        self._own.expected.discard(name)
        self._own.serves[name] = block
        self._own.change()

    def _require_open(self) -> None:
        if self._own.closed:
            raise KVError("the network is closed")


def _signed(name: str, contents: Contents) -> bytes:
    """A signature of one name and its contents, of the length of a real one."""
    return hashlib.sha256(name.encode() + b"\0" + contents.tobytes()).digest()
