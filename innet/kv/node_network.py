"""The blocks of a tenant on a node of innet: a worker's or a simulated one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from innet._native import _core
from innet.errors import ControlError, KVError
from innet.kv.node_operations import NodeOperations
from innet.kv.pool.network import (
    Cause,
    Contents,
    KeepOptions,
    KeepOutcome,
    KeptBlock,
    NetworkEvent,
    Sealed,
    UnfinishedRequest,
)
from innet.kv.pool.requests import MAX_KEPT_AT_ONCE, requests_prefix
from innet.kv.request_proofs import ProvenRequests, is_session_request
from innet.kv.tenant import Tenant
from innet.worker.collector import AskedObject, AskedObjects, BatchedDelivery

MEMBERS_REFRESH_S: Final = 1.0
"""How often a node refreshes the members when they have not changed for a while."""
_LEAST_REFRESH_S: Final = 0.05
"""How soon it refreshes them after a change, or when a member did not answer."""

Result = TypeVar("Result")

AskMembers = Callable[[], Awaitable[Mapping[str, int]]]
"""The members of the pool now; raises ControlError if the controller does not answer."""

_CAUSES: Final = {
    _core.STATUS_ABSENT: Cause.ABSENT,
    _core.STATUS_DEADLINE_EXCEEDED: Cause.LATE,
    _core.STATUS_UNTRUSTED: Cause.UNTRUSTED,
    _core.STATUS_MISMATCH: Cause.UNTRUSTED,
}
"""Causes by the status of a failed fetch; with any other status the node was unreachable."""

_DOUBTFUL: Final = (Cause.LATE, Cause.UNREACHABLE)
"""After these, the node refreshes the members."""

_PACKET_BYTES_FOR: Final = {MAX_KEPT_AT_ONCE: 2700, 4: 1300}
"""Size of the answer to a request for so many blocks, with the longest possible names."""
_SESSION_ANSWER_S: Final = 5.0
"""How long the answer to a request for the session can be requested again."""
_MOST_HINTS: Final = 4096
"""Nodes whose names are cached in the form of the packet path."""

_log = logging.getLogger(__name__)


class BlockHost(Protocol):
    """The parts of a process that a pool uses: of a worker, or of a host in a simulation."""

    @property
    def node(self) -> _core.NodeHandle:
        """The host's node."""

    @property
    def collector(self) -> BatchedDelivery:
        """Delivers completions of the node's operations, in the event loop of the pool."""

    @property
    def asked_objects(self) -> AskedObjects:
        """Delivers requests for objects of the node."""


class _Fetched(Sealed):
    """A fetched block, in memory that nobody can have changed: it is not verified again.

    Its array and root are made at their first use, because a home's node serves most blocks alone.
    """

    __slots__ = ("_contents", "buffer")

    def __init__(self, buffer: _core.ObjectBuffer) -> None:
        self.buffer = buffer
        self._contents: Contents | None = None

    @property
    def contents(self) -> Contents:  # type: ignore[override]
        if self._contents is None:
            self._contents = np.frombuffer(self.buffer, np.uint8)  # type: ignore[call-overload]
        return self._contents

    @property
    def root(self) -> bytes:  # type: ignore[override]
        return self.buffer.root()

    @property
    def memory_bytes(self) -> int:
        return self.buffer.charge


def _is_published(name: str, status: int, detail: str) -> bool:
    """
    Raises:
        KVError: it cannot be published, whatever its bytes are.
    """
    if status not in (_core.STATUS_DONE, _core.STATUS_UNTRUSTED):
        raise KVError(f"{name} cannot be published: {detail}")
    return status == _core.STATUS_DONE


def _hint_of(node: str) -> _core.Name:
    """The forwarding hint of Interests for ``node``."""
    return _core.Name(f"/n/{node}")


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Options of a :class:`NodeBlockNetwork`.

    Attributes:
        weight: the pool's share of the node's tables, beside other pools and the job.
        packet_bytes: limit of a block's packets.
        process: a random number of 64 bits, which stands for this process in requests.
        distance: the cost of the route to a member.
        neighbours: nodes at the other ends of this node's links. Requests to others have no roots
            attached and accept no drafts, so that caches between get the signed roots with which
            they can serve blocks.
    """

    weight: int = 1
    packet_bytes: int
    process: int
    distance: Callable[[str], int]
    neighbours: frozenset[str] = frozenset()


class NodeBlockNetwork:
    """A :class:`~innet.kv.pool.network.BlockNetwork` on a node.

    Used in the event loop in which :meth:`start` was called, until :meth:`stop`.
    """

    def __init__(
        self,
        name: str,
        host: BlockHost,
        tenant: Tenant,
        ask_members: AskMembers,
        options: NetworkOptions,
    ) -> None:
        """
        Args:
            name: of the node.
            host: has the node.
            tenant: whose blocks they are.
            ask_members: returns the members of the pool.
            options: see there.
        """
        self.node = name
        self.tenant = tenant.component
        self.distance = options.distance
        fitting = (n for n, size in _PACKET_BYTES_FOR.items() if options.packet_bytes >= size)
        self.most_kept_at_once = next(fitting, 1)
        self._host = host
        self._keys = tenant
        self._signing_key = tenant.signing_key()
        self._signer = _core.Name(tenant.key_name)
        self._ask_members = ask_members
        self._weight = options.weight
        self._packet_bytes = options.packet_bytes
        self._neighbours = options.neighbours
        self._hint_of = lru_cache(maxsize=_MOST_HINTS)(_hint_of)
        self._prefix = _core.Name(tenant.prefix)
        self._requests = _core.Name(requests_prefix(tenant.component, name))
        self._proven = ProvenRequests(tenant, name, options.process, self._fetch_answer)
        self._known: Mapping[str, int] = {}
        self._doubt = asyncio.Event()
        self._asked: deque[AskedObject] = deque()
        self._adopted: list[str] = []
        self._reported: list[int] = []  # memory of kept blocks that are not acknowledged
        self._room_bytes: int | None = None
        self._has_events = asyncio.Event()
        self._operations = NodeOperations(host.collector)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve the tenant's names, and learn the members.

        Raises:
            ControlError: the members are not known.
        """
        self._known = dict(await self._ask_members())
        self._loop = asyncio.get_running_loop()
        node = self._host.node
        node.install_job(self._keys.prefix, self._weight, None, [self._keys.member_key()])
        for prefix, guard in ((self._requests, self._proven.guard), (self._prefix, None)):
            node.register_objects(
                prefix,
                self.node,
                guard is not None,
                self._keys.tag_key,
                root_key=self._signing_key,
                guard=guard,
            )
        self._host.asked_objects.listen(self._keys.prefix, self._on_asked, self._host.collector)
        self._refreshing = self._loop.create_task(self._refresh(), name="kv-members")

    async def stop(self) -> None:
        """Stop serving the tenant's names; operations in progress end."""
        if self._refreshing is None:
            return
        self._loop = None
        self._has_events.set()
        self._refreshing.cancel()
        with suppress(asyncio.CancelledError):
            await self._refreshing
        self._refreshing = None
        await self._operations.stop()
        with suppress(RuntimeError):  # the node has been stopped
            self._host.node.stop_keeping(self._requests)
            self._host.asked_objects.ignore(self._keys.prefix)
            self._host.node.unregister_objects(self._requests)
            self._host.node.unregister_objects(self._prefix)
            self._host.node.remove_job(self._keys.prefix)

    def members(self) -> Mapping[str, int]:
        return self._known

    def publish(self, name: str, contents: Contents) -> asyncio.Future[Sealed]:
        """See :meth:`BlockNetwork.publish`; it has begun when this returns."""
        return self._publish([name], [contents], is_single=True)

    def publish_together(
        self, names: Sequence[str], contents: Sequence[Contents]
    ) -> asyncio.Future[Sequence[Sealed]]:
        """See :meth:`BlockNetwork.publish_together`; all have begun when this returns."""
        return self._publish(names, contents)

    def _publish(
        self, names: Sequence[str], contents: Sequence[Contents], *, is_single: bool = False
    ) -> asyncio.Future[Any]:
        try:
            operation, signed = self._open_node().publish_objects(
                names,
                contents,
                self._signing_key,
                self._packet_bytes,
                draft=not self._neighbours.isdisjoint(self._known),
            )
        except RuntimeError as error:
            raise self._stopped(error) from error

        def published(status: int, detail: str) -> Sealed | list[Sealed]:
            if status != _core.STATUS_DONE:
                raise KVError(f"{names[0]} cannot be published: {detail}")
            if is_single:
                return Sealed(contents[0], signed[0].root())
            return [Sealed(its, root.root()) for its, root in zip(contents, signed, strict=True)]

        return self._operations.published(operation, published, batched=True)

    def publish_sealed(self, name: str, block: Sealed) -> asyncio.Future[Sealed | None]:
        """See :meth:`BlockNetwork.publish_sealed`; it has begun when this returns."""
        named = _core.Name(name)
        with self._running() as node:
            if isinstance(block, _Fetched):
                operation = node.publish_fetched_object(named, block.buffer, self._packet_bytes)
            else:
                operation = node.publish_sealed_object(
                    named, block.contents, block.root, self._packet_bytes
                )

        def published(status: int, detail: str) -> Sealed | None:
            return block if _is_published(name, status, detail) else None

        return self._operations.published(operation, published)

    def expect(self, name: str) -> None:
        with self._running() as node:
            node.expect_object(_core.Name(name))

    def withdraw(self, name: str) -> None:
        """See :meth:`BlockNetwork.withdraw`; a closed network serves nothing."""
        self._tell(lambda node: node.withdraw_object(_core.Name(name)))

    def end_serving(self, names: Sequence[str]) -> None:
        """See :meth:`BlockNetwork.end_serving`; it causes no wake-up of the node's thread."""
        self._tell(lambda node: node.withdraw_objects_deferred(names))

    def fetch(self, name: str, source: str, timeout_s: float) -> asyncio.Future[Sealed | Cause]:
        """See :meth:`BlockNetwork.fetch`; it has begun when this returns."""
        return self._fetch([name], source, timeout_s, _Fetched)

    def request(
        self, member: str, action: str, timeout_s: float, attached: Sequence[str] = ()
    ) -> Awaitable[Sealed | Cause]:
        return self._proven.send(member, action, timeout_s, attached)

    def _fetch_answer(
        self, name: str, member: str, timeout_s: float, attached: Sequence[str]
    ) -> asyncio.Future[Sealed | Cause]:
        return self._fetch([name], member, timeout_s, _Fetched, attached=attached)

    def fetch_together(
        self, names: Sequence[str], source: str, timeout_s: float
    ) -> asyncio.Future[list[Sealed | Cause]]:
        """See :meth:`BlockNetwork.fetch_together`; all have begun when this returns."""
        return self._fetch(names, source, timeout_s, _Fetched, is_single=False)

    def probe(self, name: str, source: str, timeout_s: float) -> asyncio.Future[Cause | None]:
        """See :meth:`BlockNetwork.probe`; it has begun when this returns."""
        return self._fetch([name], source, timeout_s, lambda _: None, root_only=True)

    def empty_cache(self) -> None:
        with self._running() as node:
            node.drop_cached(self._keys.prefix)

    def start_keeping(self, options: KeepOptions) -> None:
        with self._running() as node:
            node.keep_objects(
                self._requests,
                self._signer,
                self._signing_key,
                answer=options.answer,
                max_packet_bytes=self._packet_bytes,
                window=options.window,
                fetch_s=options.fetch_s,
                answer_s=options.answer_s,
                budget_bytes=options.room_bytes,
            )
        self._room_bytes = options.room_bytes

    def adopt(self, name: str) -> None:
        self._adopted.append(name)

    def grant_room(self, room_bytes: int) -> None:
        """See :meth:`BlockNetwork.grant_room`; a closed network keeps nothing."""
        if self._room_bytes is None or (not self._reported and room_bytes == self._room_bytes):
            return
        blocks, memory_bytes = len(self._reported), sum(self._reported)
        self._reported.clear()
        self._room_bytes = room_bytes
        self._tell(
            lambda node: node.acknowledge_kept(self._requests, blocks, memory_bytes, room_bytes)
        )

    def _tell(self, change: Callable[[_core.NodeHandle], None]) -> None:
        """Change what the node serves, unless it has been stopped or the network is closed.

        The node takes over adopted blocks first.
        """
        if self._loop is None:
            return
        node = self._host.node
        try:
            if self._adopted:
                adopted, self._adopted = self._adopted, []
                node.adopt_objects(adopted)
            change(node)
        except RuntimeError:  # it has been stopped
            return

    def stop_keeping(self) -> None:
        if self._loop is not None:
            self._host.node.stop_keeping(self._requests)
        self._room_bytes = None

    async def next_events(self) -> list[NetworkEvent]:
        await self._has_events.wait()
        self._open_node()
        self._has_events.clear()
        return self._take_events()

    def take_events(self) -> list[NetworkEvent]:
        if self._loop is not None:
            with suppress(RuntimeError):  # the node has been stopped
                self._host.asked_objects.tell()
        return self._take_events()

    def _take_events(self) -> list[NetworkEvent]:
        # Another thread may add to it meanwhile.
        return [self._event(*self._asked.popleft()) for _ in range(len(self._asked))]

    def _answer_session(self, request: str) -> None:
        loop = self._loop
        if loop is None:
            return
        with suppress(KVError):  # the node has been stopped
            published = self.publish(request, self._proven.session())
            published.add_done_callback(_ignore_result)  # begins it
            loop.call_later(_SESSION_ANSWER_S, self.withdraw, request)

    def _event(self, name: str, done: _core.KeptObject | list[int | None] | None) -> NetworkEvent:
        if done is None:
            return name
        if isinstance(done, _core.KeptObject):
            buffer, memory_bytes, depth, requesters, is_served = done.read()
            self._reported.append(memory_bytes)
            return KeptBlock(name, _Fetched(buffer), depth, requesters, is_served)
        return UnfinishedRequest(name, [self._outcome(status) for status in done])

    def _outcome(self, status: int | None) -> KeepOutcome:
        return status is not None and (self._failure(status) or True)

    def _failure(self, status: int) -> Cause | None:
        """Why a fetch failed that ended with ``status``; ``None``: it did not."""
        if status == _core.STATUS_DONE:
            return None
        cause = _CAUSES.get(status, Cause.UNREACHABLE)
        if cause in _DOUBTFUL:
            self._doubt.set()
        return cause

    def _fetch(
        self,
        names: Sequence[str],
        source: str,
        timeout_s: float,
        convert: Callable[[_core.ObjectBuffer], Result],
        *,
        root_only: bool = False,
        is_single: bool = True,
        attached: Sequence[str] = (),
    ) -> asyncio.Future[Any]:
        """The buffers of completed fetches, converted by ``convert``, or why they failed."""
        try:
            operation, buffers = self._open_node().fetch_objects(
                names,
                self._hint_of(source),
                self._signer,
                timeout_s=timeout_s,
                root_only=root_only,
                to_neighbour=source in self._neighbours,
                attached=attached,
                max_request_bytes=self._packet_bytes,
            )
        except RuntimeError as error:  # the node has been stopped
            _log.debug("cannot fetch %s from %s: %s", names, source, error)
            unreachable: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            causes = [Cause.UNREACHABLE] * len(names)
            unreachable.set_result(causes[0] if is_single else causes)
            return unreachable

        def end_of(name: str, buffer: _core.ObjectBuffer) -> Any:
            failure = self._failure(buffer.status)
            if failure is None:
                return convert(buffer)
            _log.debug("%s from %s is %s: %s", name, source, failure.value, buffer.detail)
            return failure

        def fetched(status: int, detail: str) -> Any:
            if (failure := self._failure(status)) is None:
                ends = list(map(end_of, names, buffers))
            else:  # the node may still write to the buffers
                _log.debug("fetches from %s are %s: %s", source, failure.value, detail)
                ends = [failure] * len(names)
            return ends[0] if is_single else ends

        return self._operations.fetched(operation, fetched)

    @contextmanager
    def _running(self) -> Iterator[_core.NodeHandle]:
        """The node.

        Raises:
            KVError: the network is not open, or the node has been stopped.
        """
        try:
            yield self._open_node()
        except RuntimeError as error:
            raise self._stopped(error) from error

    def _stopped(self, error: RuntimeError) -> KVError:
        return KVError(f"{self.node} has stopped and serves no blocks: {error}")

    def _open_node(self) -> _core.NodeHandle:
        """
        Raises:
            KVError: the network is not open.
        """
        if self._loop is None:
            raise KVError(f"the pool's network on {self.node} is closed; open the pool again")
        return self._host.node

    def _on_asked(self, asked: Sequence[AskedObject]) -> None:
        loop = self._loop
        if loop is None:
            return
        others = [each for each in asked if not is_session_request(each[0])]
        self._asked.extend(others)
        work: list[Callable[[], None]] = [self._has_events.set] if others else []
        if len(others) < len(asked):
            sessions = (name for name, _ in asked if is_session_request(name))
            work += (partial(self._answer_session, name) for name in sessions)
        is_running = _is_running(loop)
        for each in work:
            if is_running:
                each()
            else:  # the thread of another pool of this process
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(each)

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
                _log.info("%s could not refresh the members of its pool: %s", self.node, error)
            # Members join, and leave, at about the same time.
            changed = self._known != before
            pause_s = _LEAST_REFRESH_S if changed else min(2 * pause_s, MEMBERS_REFRESH_S)


def _ignore_result(ended: asyncio.Future[Any]) -> None:
    _ = ended.cancelled() or ended.exception()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is called in ``loop``."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
