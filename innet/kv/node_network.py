"""The blocks of a tenant on a node of innet, a worker's or a simulated one."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeVar

from innet._native import _core
from innet.errors import ControlError, KVError
from innet.kv.pool.network import (
    Asked,
    Contents,
    Keeping,
    KeptBlock,
    Outcome,
    Sealed,
    TriedRequest,
)
from innet.kv.requests import MAX_KEPT_AT_ONCE, requests_prefix
from innet.kv.tenant import Tenant
from innet.worker.asked_objects import AskedObject, AskedObjects
from innet.worker.collector import QuietDelivery

MEMBERS_REFRESH_S: Final = 1.0
"""How often a node looks who is in the pool, when that has not changed for a while."""
_LEAST_REFRESH_S: Final = 0.05
"""How soon it looks again after a change, or when a member did not answer."""

Result = TypeVar("Result")

AskMembers = Callable[[], Awaitable[Mapping[str, int]]]
"""Who is in the pool now; raises ControlError when that cannot be known."""

_OUTCOMES: Final = {
    _core.STATUS_DONE: Outcome.HERE,
    _core.STATUS_ABSENT: Outcome.ABSENT,
    _core.STATUS_DEADLINE_EXCEEDED: Outcome.LATE,
    _core.STATUS_UNTRUSTED: Outcome.UNTRUSTED,
    _core.STATUS_MISMATCH: Outcome.UNTRUSTED,
}
"""By how a fetch has ended; all other ends say that nobody could be asked."""

_DOUBTFUL: Final = (Outcome.LATE, Outcome.UNREACHABLE)
"""After these, it is time to look who is in the pool."""

_PACKET_BYTES_FOR_SEVERAL: Final = 1300
"""What the answer to a request for several blocks takes, with the longest names there are."""
_MOST_HINTS: Final = 4096
"""Nodes whose names are kept as the packet path has them."""

_log = logging.getLogger(__name__)


class BlockHost(Protocol):
    """What the blocks of a pool need of their process: a worker, or a host in a simulation."""

    @property
    def node(self) -> _core.NodeHandle:
        """The host's node."""

    @property
    def collector(self) -> QuietDelivery:
        """Tells of the ends of the node's operations, in the event loop of the pool."""

    @property
    def asked_objects(self) -> AskedObjects:
        """Tells of the objects that the node is asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class _Fetched(Sealed):
    """A block as it came, in memory that nobody can have changed: it needs no second look."""

    buffer: _core.ObjectBuffer


class _QuietFuture(asyncio.Future[Result]):
    """The end of an operation that is told of with others', and by itself if it is waited for."""

    def __init__(self, hasten: Callable[[], None], loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(loop=loop)
        self._hasten = hasten

    def add_done_callback(
        self, callback: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """All who wait for a future do it so."""
        if not self.done():
            self._hasten()
        super().add_done_callback(callback, context=context)


def _is_published(name: str, status: int, detail: str) -> bool:
    """
    Raises:
        KVError: it cannot be, whatever its bytes are.
    """
    if status not in (_core.STATUS_DONE, _core.STATUS_UNTRUSTED):
        raise KVError(f"{name} cannot be published: {detail}")
    return status == _core.STATUS_DONE


def _hint_of(node: str) -> _core.Name:
    """Where to send an Interest for ``node``."""
    return _core.Name(f"/n/{node}")


def _outcome_of(status: int) -> Outcome:
    return _OUTCOMES.get(status, Outcome.UNREACHABLE)


def _fetched(buffer: _core.ObjectBuffer) -> _Fetched:
    contents: Contents = buffer.array()
    contents.flags.writeable = False
    return _Fetched(contents, buffer.root(), buffer)


class NodeBlockNetwork:
    """A :class:`~innet.kv.pool.network.BlockNetwork` on a node.

    It is used in the event loop that :meth:`start` was called in, and ends with :meth:`stop`.
    """

    def __init__(
        self,
        name: str,
        host: BlockHost,
        tenant: Tenant,
        ask_members: AskMembers,
        *,
        weight: int,
        packet_bytes: int,
        first_nonce: int,
    ) -> None:
        """
        Args:
            name: of the node.
            host: has the node.
            tenant: whose blocks they are.
            ask_members: tells who is in the pool.
            weight: the pool's part of the node's tables, beside other pools' and the job's.
            packet_bytes: the most that a packet of a block has.
            first_nonce: of the requests from here; no other process of the node has one near it.
        """
        self.node = name
        self.tenant = tenant.component
        has_room = packet_bytes >= _PACKET_BYTES_FOR_SEVERAL
        self.most_kept_at_once = MAX_KEPT_AT_ONCE if has_room else 1
        self._host = host
        self._keys = tenant
        self._signing_key = tenant.signing_key()
        self._signer = _core.Name(tenant.key_name)
        self._ask_members = ask_members
        self._weight = weight
        self._packet_bytes = packet_bytes
        self._nonces = itertools.count(first_nonce)
        self._hint_of = lru_cache(maxsize=_MOST_HINTS)(_hint_of)
        self._prefix = _core.Name(tenant.prefix)
        self._requests = _core.Name(requests_prefix(tenant.component, name))
        self._known: Mapping[str, int] = {}
        self._doubt = asyncio.Event()
        self._asked: deque[AskedObject] = deque()
        self._adopted: list[str] = []
        self._was_asked = asyncio.Event()
        self._under_way: dict[int, asyncio.Future[Any]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve the tenant's names, and know the members.

        Raises:
            ControlError: nobody can say who they are.
        """
        self._known = dict(await self._ask_members())
        self._loop = asyncio.get_running_loop()
        node = self._host.node
        node.install_job(self._keys.prefix, self._weight, None, [self._keys.member_key()])
        node.register_objects(self._requests, self.node, True, self._keys.tag_key)
        node.register_objects(self._prefix, self.node, False, self._keys.tag_key)
        self._host.asked_objects.listen(self._keys.prefix, self._on_asked, self._host.collector)
        self._refreshing = self._loop.create_task(self._refresh(), name="kv-members")

    async def stop(self) -> None:
        """Serve none of the tenant's names any more; what is under way ends."""
        if self._refreshing is None:
            return
        self._loop = None
        self._was_asked.set()
        self._refreshing.cancel()
        with suppress(asyncio.CancelledError):
            await self._refreshing
        self._refreshing = None
        for operation in self._under_way:
            self._host.collector.hasten(operation)
            self._host.collector.cancel(operation)
        while self._under_way:
            await asyncio.wait(tuple(self._under_way.values()))
            await asyncio.sleep(0)  # some have been cancelled, and end a little later
        with suppress(RuntimeError):  # the node has been stopped, and has nothing any more
            self._host.node.stop_keeping(self._requests)
            self._host.asked_objects.ignore(self._keys.prefix)
            self._host.node.unregister_objects(self._requests)
            self._host.node.unregister_objects(self._prefix)
            self._host.node.remove_job(self._keys.prefix)

    def members(self) -> Mapping[str, int]:
        """As :meth:`BlockNetwork.members`."""
        return self._known

    def nonce(self) -> str:
        """As :meth:`BlockNetwork.nonce`."""
        return f"{next(self._nonces):x}"

    def publish(self, name: str, contents: Contents) -> asyncio.Future[Sealed]:
        """As :meth:`BlockNetwork.publish`; it is on its way when this returns."""
        signed = _core.ObjectBuffer()
        try:
            operation = self._open_node().publish_object(
                _core.Name(name),
                contents,
                self._signing_key,
                self._packet_bytes,
                signed,
                lend=True,
                unhurried=True,
            )
        except RuntimeError as error:
            raise self._not_running(error) from error

        def published(status: int, detail: str) -> Sealed:
            if not _is_published(name, status, detail):
                raise KVError(f"{name} cannot be signed: {detail}")
            return Sealed(contents, signed.root())

        collector = self._host.collector
        ending: _QuietFuture[Sealed] = _QuietFuture(
            partial(collector.hasten, operation), self._loop
        )
        collector.deliver_quietly(operation, self._end(operation, ending, published))
        return ending

    def publish_sealed(self, name: str, block: Sealed) -> asyncio.Future[Sealed | None]:
        """As :meth:`BlockNetwork.publish_sealed`; it is on its way when this returns."""
        node, named = self._open_node(), _core.Name(name)
        try:
            if isinstance(block, _Fetched):
                operation = node.publish_fetched_object(named, block.buffer, self._packet_bytes)
            else:
                operation = node.publish_sealed_object(
                    named, block.contents, block.root, self._packet_bytes
                )
        except RuntimeError as error:
            raise self._not_running(error) from error

        def published(status: int, detail: str) -> Sealed | None:
            return block if _is_published(name, status, detail) else None

        ending = asyncio.get_running_loop().create_future()
        self._host.collector.deliver(operation, self._end(operation, ending, published))
        return ending

    def expect(self, name: str) -> None:
        """As :meth:`BlockNetwork.expect`."""
        try:
            self._open_node().expect_object(_core.Name(name))
        except RuntimeError as error:
            raise self._not_running(error) from error

    def withdraw(self, name: str) -> None:
        """As :meth:`BlockNetwork.withdraw`; a network that is closed offers nothing."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._tell_adopted()
                self._host.node.withdraw_object(_core.Name(name))

    def end_serving(self, name: str) -> None:
        """As :meth:`BlockNetwork.end_serving`; no waiting node is woken up for it."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._tell_adopted()
                self._host.node.withdraw_object_unhurried(_core.Name(name))

    async def fetch(
        self, name: str, source: str, timeout_s: float, into: Contents | None = None
    ) -> tuple[Outcome, Sealed | None]:
        """As :meth:`BlockNetwork.fetch`."""
        buffer = _core.ObjectBuffer() if into is None else _core.ObjectBuffer(into)
        outcome = await self._fetch(name, source, timeout_s, buffer)
        if outcome is not Outcome.HERE:
            return outcome, None
        if into is None:
            return outcome, _fetched(buffer)
        return outcome, Sealed(buffer.array(), buffer.root())

    async def probe(self, name: str, source: str, timeout_s: float) -> Outcome:
        """As :meth:`BlockNetwork.probe`."""
        return await self._fetch(name, source, timeout_s, _core.ObjectBuffer(), root_only=True)

    def keep_by_itself(self, keeping: Keeping) -> None:
        """As :meth:`BlockNetwork.keep_by_itself`."""
        try:
            self._open_node().keep_objects(
                self._requests,
                self._signer,
                self._signing_key,
                answer=keeping.answer,
                max_packet_bytes=self._packet_bytes,
                window=keeping.window,
                fetch_s=keeping.fetch_s,
                answer_s=keeping.answer_s,
                room_bytes=keeping.room_bytes,
            )
        except RuntimeError as error:
            raise self._not_running(error) from error

    def adopt(self, name: str) -> None:
        """As :meth:`BlockNetwork.adopt`."""
        self._adopted.append(name)

    def hear_of_kept(self, blocks: int, size_bytes: int, room_bytes: int) -> None:
        """As :meth:`BlockNetwork.hear_of_kept`; a network that is closed keeps nothing."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._tell_adopted()
                self._host.node.hear_of_kept(self._requests, blocks, size_bytes, room_bytes)

    def _tell_adopted(self) -> None:
        """Before anything else is done to them.

        Raises:
            RuntimeError: the node does not run any more.
        """
        if self._adopted:
            adopted, self._adopted = self._adopted, []
            self._host.node.adopt_objects(adopted)

    def keep_nothing_by_itself(self) -> None:
        """As :meth:`BlockNetwork.keep_nothing_by_itself`."""
        if self._loop is not None:
            self._host.node.stop_keeping(self._requests)

    async def asked(self) -> list[Asked]:
        """As :meth:`BlockNetwork.asked`."""
        await self._was_asked.wait()
        self._open_node()
        self._was_asked.clear()
        return self._take_asked()

    def asked_by_now(self) -> list[Asked]:
        """As :meth:`BlockNetwork.asked_by_now`."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the node has been stopped: nobody asks it any more
                self._host.asked_objects.tell()
        return self._take_asked()

    def _take_asked(self) -> list[Asked]:
        # Another thread may add to it meanwhile.
        return [self._heard(*self._asked.popleft()) for _ in range(len(self._asked))]

    def _heard(self, name: str, done: _core.KeptObject | list[int | None] | None) -> Asked:
        if done is None:
            return name
        if isinstance(done, _core.KeptObject):
            block = _fetched(done.buffer)
            return KeptBlock(name, block, done.depth, done.askers, not done.is_replaced)
        outcomes = [None if status is None else _outcome_of(status) for status in done]
        if any(outcome in _DOUBTFUL for outcome in outcomes):
            self._doubt.set()
        return TriedRequest(name, outcomes)

    async def _fetch(
        self,
        name: str,
        source: str,
        timeout_s: float,
        buffer: _core.ObjectBuffer,
        *,
        root_only: bool = False,
    ) -> Outcome:
        try:
            operation = self._open_node().fetch_object(
                _core.Name(name),
                self._hint_of(source),
                self._signer,
                buffer,
                timeout_s,
                may_be_absent=True,
                root_only=root_only,
            )
        except RuntimeError as error:  # the node has been stopped
            _log.debug("%s cannot be asked for %s: %s", source, name, error)
            return Outcome.UNREACHABLE
        try:
            status, detail = await self._end_of(operation)
        except asyncio.CancelledError:
            await self._give_up(operation)
            raise
        outcome = _outcome_of(status)
        if outcome is Outcome.HERE:
            return outcome
        if outcome in _DOUBTFUL:
            self._doubt.set()
        _log.debug("%s from %s is %s: %s", name, source, outcome.value, detail)
        return outcome

    def _end(
        self,
        operation: int,
        ending: asyncio.Future[Result],
        result: Callable[[int, str], Result],
    ) -> Callable[[int, str], None]:
        """Ends ``ending`` with what ``result`` makes of the status and detail of an operation, or
        raises of them."""

        def end(status: int, detail: str) -> None:
            del self._under_way[operation]
            if ending.cancelled():
                return
            try:
                ending.set_result(result(status, detail))
            except KVError as error:
                ending.set_exception(error)

        self._under_way[operation] = ending
        return end

    def _end_of(self, operation: int) -> asyncio.Future[tuple[int, str]]:
        """Status and detail of an operation."""
        waiting: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._under_way[operation] = waiting
        self._host.collector.deliver(operation, partial(self._tell_end, operation))
        return waiting

    def _tell_end(self, operation: int, status: int, detail: str) -> None:
        waiting = self._under_way.pop(operation)
        if not waiting.done():
            waiting.set_result((status, detail))

    async def _give_up(self, operation: int) -> None:
        """Cancel an operation; it has ended when this has, however often that is cancelled.

        So nothing is written any more to memory that the caller has given.
        """
        if operation in self._under_way:
            self._host.collector.cancel(operation)
        while operation in self._under_way:
            waiting = asyncio.get_running_loop().create_future()
            self._under_way[operation] = waiting
            with suppress(asyncio.CancelledError):
                await waiting

    def _open_node(self) -> _core.NodeHandle:
        """
        Raises:
            KVError: the network is not open.
        """
        if self._loop is None:
            raise KVError(f"the pool's network on {self.node} is closed; open the pool again")
        return self._host.node

    def _not_running(self, error: RuntimeError) -> KVError:
        return KVError(f"{self.node} offers no blocks any more: {error}")

    def _on_asked(self, asked: Sequence[AskedObject]) -> None:
        loop = self._loop
        if loop is None:
            return
        self._asked.extend(asked)
        if _is_running(loop):
            self._was_asked.set()
        else:  # another pool of this process has heard of it
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._was_asked.set)

    async def _refresh(self) -> None:
        pause_s = _LEAST_REFRESH_S
        while True:
            await asyncio.sleep(_LEAST_REFRESH_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s - _LEAST_REFRESH_S):
                    await self._doubt.wait()
            self._doubt.clear()
            before = self._known
            try:
                self._known = dict(await self._ask_members())
            except ControlError as error:
                _log.info("%s does not know who is in its pool now: %s", self.node, error)
            # Members come, and go, at about the same time.
            changed = self._known != before
            pause_s = _LEAST_REFRESH_S if changed else min(2 * pause_s, MEMBERS_REFRESH_S)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is called in ``loop``."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
