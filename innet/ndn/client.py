"""The NDN client: sends Interests and receives Data, and answers the Interests of others."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, Unpack

from innet.errors import InterestRefused, InterestTimeout, MalformedPacket, NoForwarder
from innet.names import Name, as_name
from innet.ndn import wire
from innet.ndn.address import INNET_VARIABLE, FaceAddress, default_address
from innet.ndn.face import LastingConnection
from innet.ndn.management import Management, PrefixRegistrations
from innet.ndn.pending import ExpressedInterest, PendingTable
from innet.ndn.production import Answers, Handler, Producers
from innet.ndn.wire import ReceivedInterest
from innet.security.signers import DigestSigner, Signer
from innet.security.validation import IntegrityValidator, ReceivedData, Validator
from innet.tlv_numbers import NackReason, TlvType

_log = logging.getLogger(__name__)
_PAUSE_AFTER_CONGESTION_S = 0.1

_REASONS: dict[int, str] = {
    NackReason.CONGESTION: "the network is congested; send fewer Interests, or later",
    NackReason.DUPLICATE: "the Interest went in a circle: check the routes",
    NackReason.NO_ROUTE: "no forwarder on the way has a route to it: is its producer connected, "
    "and has it registered the prefix?",
    NackReason.FORBIDDEN: "the name is of a job that this client has no part in",
    NackReason.NO_DATA: "the producer does not have it",
}


class InterestReply(NamedTuple):
    """The answer to an Interest.

    Attributes:
        data: not validated yet.
        congested: whether the answer has a congestion mark.
    """

    data: ReceivedData
    congested: bool


class Client:
    """An NDN application's connection to its forwarder.

    Args:
        address: face URI of the forwarder; by default ``INNET_NDN`` (in a job of innet), then
            ``NDN_CLIENT_TRANSPORT``, then ``unix:///run/nfd/nfd.sock``.
        signer: signs publications for which the caller gives no other signer.
        command_signer: signs management commands; a digest is enough for a local forwarder that
            obeys every local program.
        validator: accepts or refuses Data. The default detects damage only: give one that knows
            which signers to trust.

    Attributes:
        management: commands and questions to the forwarder.

    Example::

        async with Client() as client:
            await client.register("/hello", lambda i: encode_data(i.name, b"world"))
            data = await client.express("/weather/today", must_be_fresh=True)
            print(data.content)
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        signer: Signer | None = None,
        command_signer: Signer | None = None,
        validator: Validator | None = None,
    ) -> None:
        where = default_address() if address is None else FaceAddress.parse(address)
        self.signer: Signer = signer or DigestSigner()
        self.validator: Validator = validator or IntegrityValidator()
        self._connection = LastingConnection(where, self._received, self._restored)
        self._pending: PendingTable[asyncio.Future[InterestReply]] = PendingTable()
        self._timer: asyncio.TimerHandle | None = None
        self._producers = Producers()
        self._answers = Answers()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.management = Management(self, command_signer or DigestSigner())
        self._announcement_signer: Signer = signer or command_signer or DigestSigner()
        self._registrations = PrefixRegistrations(self.management)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect to the forwarder.

        Raises:
            NoForwarder: nothing listens there; the message says how to start one.
        """
        await _open_own_node(self._connection.address)
        await self._connection.open()

    async def close(self) -> None:
        """Unregister prefixes, end the operations under way, and disconnect."""
        await self._registrations.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pending in list(self._pending):
            self._pending.remove(pending)
            pending.waiter.cancel()
        self._arm_timer()
        await self._connection.close()

    async def express(
        self,
        name: Name | str,
        *,
        lifetime_s: float = 1.0,
        deadline_s: float = 4.0,
        no_route_patience_s: float = 0.0,
        validator: Validator | None = None,
        **fields: Unpack[wire.InterestFields],
    ) -> ReceivedData:
        """Ask for one Data packet, again whenever an Interest's lifetime ends, and validate it.

        Args:
            name: of the Data; with an implicit digest as last component, just that packet.
            lifetime_s: of each Interest. If the producer takes longer to answer, it receives the
                Interest again.
            deadline_s: time until the call gives up.
            no_route_patience_s: how long to retry while no route exists: a registration may be
                under way.
            validator: in place of the client's.
            fields: of the Interest, such as ``must_be_fresh=True``; see
                :class:`innet.ndn.wire.InterestFields`.

        Raises:
            InterestTimeout: no answer before the deadline.
            InterestRefused: a forwarder sent a Nack; the message says why.
            NoForwarder: the connection to the forwarder was lost and not restored in time.
            SecurityError: the validator refused the answer.
            ValueError: the name is malformed or empty.
        """
        clock = asyncio.get_running_loop().time
        deadline_at_s = clock() + deadline_s
        no_route_until_s = clock() + no_route_patience_s
        while True:
            left_s = deadline_at_s - clock()
            if left_s <= 0:
                raise self._no_answer(as_name(name), deadline_s)
            packet = wire.encode_interest(
                name, lifetime_s=min(lifetime_s, max(left_s, 0.001)), **fields
            )
            try:
                data = (await self.exchange(packet)).data
            except InterestTimeout:
                continue
            except InterestRefused as refused:
                may_come = refused.reason == NackReason.NO_ROUTE and clock() < no_route_until_s
                passes = refused.reason in (NackReason.CONGESTION, NackReason.DUPLICATE)
                if not (passes or may_come):
                    raise
                if deadline_at_s - clock() <= _PAUSE_AFTER_CONGESTION_S:
                    raise
                await asyncio.sleep(_PAUSE_AFTER_CONGESTION_S)
                continue
            await (validator or self.validator).check(str(data.name), data)
            return data

    @property
    def dropped_answers(self) -> Mapping[str, int]:
        """Answers of handlers that were dropped, by reason: ``exception``, ``type``, ``malformed``,
        ``size`` or ``name``. The log has the name and the cause of each.
        """
        return self._answers.dropped

    async def exchange(self, packet: bytes) -> InterestReply:
        """Send one Interest as it is, and wait for its lifetime. The answer is not validated.

        Raises:
            TransportError: it is larger than 8800 bytes.
            InterestTimeout: no answer arrived.
            InterestRefused: a Nack arrived.
        """
        interest = wire.parse_interest(packet)
        wire.check_size(packet, interest.name)
        loop = asyncio.get_running_loop()
        pending: ExpressedInterest[asyncio.Future[InterestReply]] = ExpressedInterest(
            name=interest.name,
            packet=packet,
            can_be_prefix=interest.can_be_prefix,
            expires_at_s=loop.time() + interest.lifetime_s,
            waiter=loop.create_future(),
        )
        self._pending.add(pending)
        self._arm_timer()
        self._connection.send(packet)
        try:
            return await pending.waiter
        finally:
            self._pending.remove(pending)

    def send(self, packet: bytes) -> None:
        """Send a packet: an Interest that needs no answer, or Data for a pending Interest.

        Raises:
            MalformedPacket: it is neither.
            TransportError: it is larger than 8800 bytes.
        """
        parse = wire.parse_data if packet[:1] == bytes([TlvType.DATA]) else wire.parse_interest
        wire.check_size(packet, parse(packet).name)
        self._connection.send(packet)

    def produce(self, prefix: Name | str, handler: Handler) -> None:
        """Let ``handler`` answer Interests below ``prefix``, without registering it anywhere.

        A handler gets the Interest and returns a Data packet, a :class:`Refusal`, or ``None`` to
        say nothing; it may be a coroutine function. The longest prefix that fits serves. Any other
        answer is dropped, logged, and counted in :attr:`dropped_answers`.
        """
        self._producers.add(as_name(prefix), handler)

    def stop_producing(self, prefix: Name | str) -> None:
        """Undo :meth:`produce`."""
        self._producers.remove(as_name(prefix))

    def produces(self, prefix: Name | str, handler: Handler) -> bool:
        """Whether ``handler`` answers for exactly this prefix."""
        return self._producers.get(as_name(prefix)) == handler

    async def register(self, prefix: Name | str, handler: Handler, *, cost: int = 0) -> None:
        """Answer Interests below ``prefix``, and have the forwarder send them here.

        The prefix is registered again after each lost connection.

        Args:
            cost: of the route; among several producers, Interests go to the cheapest first.

        Raises:
            CommandRefused: the forwarder does not allow it.
            InterestTimeout: it did not answer.
        """
        self.produce(prefix, handler)
        try:
            await self._registrations.add(as_name(prefix), cost=cost)
        except BaseException:
            self.stop_producing(prefix)
            raise

    async def announce(
        self, prefix: Name | str, handler: Handler, *, expiration_s: float = 3600.0
    ) -> None:
        """Do as :meth:`register` for ``expiration_s``, by a signed prefix announcement.

        The client's ``signer`` signs it, without one its ``command_signer``. Where the forwarder
        lists keys, it has to be one of them.

        Raises:
            CommandRefused: the forwarder does not allow it.
            InterestTimeout: it did not answer.
        """
        self.produce(prefix, handler)
        try:
            await self._registrations.announce(
                as_name(prefix), expiration_s=expiration_s, signer=self._announcement_signer
            )
        except BaseException:
            self.stop_producing(prefix)
            raise

    async def unregister(self, prefix: Name | str) -> None:
        """Undo :meth:`register` or :meth:`announce`.

        Raises:
            CommandRefused: the forwarder does not allow it.
            InterestTimeout: it did not answer.
        """
        self.stop_producing(prefix)
        await self._registrations.remove(as_name(prefix))

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` beside everything else, until it ends or the client is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _received(self, packet: bytes) -> None:
        try:
            link = wire.parse_lp_packet(packet)
            payload = link.payload
            if not payload or link.held or link.fragment is not None:
                return
            if link.nack_reason is not None:
                self._on_nack(wire.parse_interest(payload), link.nack_reason)
            elif payload[0] == TlvType.DATA:
                self._on_data(InterestReply(wire.parse_data(payload), link.congestion_mark > 0))
            else:
                self._on_interest(wire.parse_interest(payload), link.pit_token)
        except MalformedPacket as error:
            _log.warning("dropped a packet from %s: %s", self._connection.address, error)

    def _on_data(self, reply: InterestReply) -> None:
        for pending in self._pending.satisfy(reply.data):
            if not pending.waiter.done():
                pending.waiter.set_result(reply)

    def _on_nack(self, interest: ReceivedInterest, reason: int) -> None:
        why = _REASONS.get(reason, f"reason {reason}")
        for pending in self._pending.reject(interest.name):
            if not pending.waiter.done():
                pending.waiter.set_exception(InterestRefused(f"{interest.name}: {why}", reason))

    def _on_interest(self, interest: ReceivedInterest, pit_token: bytes) -> None:
        handler = self._producers.handler_of(interest.name)
        if handler is None or not interest.parameters_digest_holds():
            return
        packet = self._answers.of(handler, interest, pit_token)
        if inspect.isawaitable(packet):
            self.start(self._answer_later(packet))
        elif packet is not None:
            self._connection.send(packet)

    async def _answer_later(self, answer: Awaitable[bytes | None]) -> None:
        packet = await answer
        if packet is not None:
            self._connection.send(packet)

    def _restored(self) -> None:
        for pending in self._pending:
            self._connection.send(pending.packet)
        self.start(self._registrations.renew())

    def _arm_timer(self) -> None:
        at_s = self._pending.next_expiry_s()
        if self._timer is not None:
            if at_s is not None and self._timer.when() <= at_s:
                return
            self._timer.cancel()
            self._timer = None
        if at_s is not None:
            self._timer = asyncio.get_running_loop().call_at(at_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        for pending in self._pending.expire(asyncio.get_running_loop().time()):
            if not pending.waiter.done():
                pending.waiter.set_exception(
                    InterestTimeout(f"no answer to {pending.name} within its lifetime")
                )
        self._arm_timer()

    def _no_answer(self, name: Name, deadline_s: float) -> InterestTimeout | NoForwarder:
        trouble = self._connection.trouble
        if trouble is not None:
            return NoForwarder(
                f"no answer to {name} within {deadline_s:g} s; the connection to "
                f"{self._connection.address} was lost: {trouble}"
            )
        return InterestTimeout(
            f"no answer to {name} within {deadline_s:g} s: check that its producer runs and has "
            "registered its prefix, or wait longer"
        )


async def _open_own_node(address: FaceAddress) -> None:
    """Open the node of this worker process, if ``address`` is its socket and it is not open yet.

    So a program that only uses NDN runs as a job's worker, too.

    Raises:
        EmulationError: the node cannot be opened.
    """
    if os.environ.get(INNET_VARIABLE) == str(address):
        await asyncio.to_thread(_open_node, Path(address.path))


def _open_node(socket: Path) -> None:
    from innet.worker.current import current_worker
    from innet.worker.job_file import JOB_VARIABLE

    if JOB_VARIABLE in os.environ and not socket.exists():
        current_worker()
