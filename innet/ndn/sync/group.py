"""A member of a sync group, connected to a forwarder."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from typing import Self

from innet.errors import CommandRefused, MalformedPacket, SecurityError, TransportError
from innet.names import Name, as_name, number_at, with_version
from innet.ndn import wire
from innet.ndn.client import Client
from innet.ndn.control import ControlParameters
from innet.ndn.production import Answer
from innet.ndn.sync.protocol import (
    SyncLimits,
    SyncProtocol,
    SyncTiming,
    Update,
    publication_name,
)
from innet.ndn.sync.state_vector import Member, StateVector
from innet.ndn.wire import ReceivedData, ReceivedInterest
from innet.security.signers import Signer
from innet.security.validation import Validator
from innet.tlv_numbers import ComponentType

_VERSION = 3
_INTEREST_LIFETIME_S = 1.0
_FRESHNESS_S = 60.0
_FETCH_WINDOW = 16
_DOUBTS_SAID = 3
_MULTICAST = "/localhost/nfd/strategy/multicast"
_log = logging.getLogger(__name__)


class SyncGroup:
    """One member of a group: publishes, and receives what the others publish.

    It keeps and serves its publications as long as the group is open.

    Args:
        client: connected to a forwarder.
        group: name of the group; its Interests must reach every member, so forwarders need a
            route for it to each of them and the multicast strategy.
        node: name of this member, below which it publishes.
        bootstrap_s: the bootstrap time of an earlier run whose publications this one continues
            (``earlier``); by default now.
        earlier: the vector at the end of that run.
        signer: signs publications and state vectors; the client's by default.
        validator: decides which signers to trust; the client's by default.
        timing: the group's timers.
        limits: of what the vectors of others may claim.
        choose_strategy: ask the forwarder for the multicast strategy, as a local one allows.
    """

    def __init__(
        self,
        client: Client,
        group: Name | str,
        node: Name | str,
        *,
        bootstrap_s: int | None = None,
        earlier: StateVector | None = None,
        signer: Signer | None = None,
        validator: Validator | None = None,
        timing: SyncTiming | None = None,
        limits: SyncLimits | None = None,
        choose_strategy: bool = True,
    ) -> None:
        self.group = as_name(group)
        self.member = Member(
            as_name(node), int(time.time()) if bootstrap_s is None else bootstrap_s
        )
        self._client = client
        self._signer = signer or client.signer
        self._validator = validator or client.validator
        self._timing = timing or SyncTiming()
        self._limits = limits
        self._earlier = earlier
        self._choose_strategy = choose_strategy
        self._sync_name = with_version(self.group, _VERSION)
        self._publication_prefix = publication_name(self.group, self.member, 0).prefix(
            len(self.member.node) + len(self.group)
        )
        self._published: dict[int, bytes] = {}
        self._unread: dict[Member, Update] = {}
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._protocol: SyncProtocol | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Join: register the prefixes, and request the state of the group.

        Raises:
            CommandRefused: the forwarder does not let this member have its prefixes.
            InterestTimeout: it did not answer.
        """
        if self._choose_strategy:
            await self._ask_for_multicast()
        await self._client.register(self._publication_prefix, self._on_publication_interest)
        self._protocol = SyncProtocol(
            self.member, self._timing, random.random, self._now_s(), self._earlier, self._limits
        )
        # A route for the whole name, as NDNts registers it: a forwarder with a route for
        # `<group>/v=3` of another member would not use one for `<group>`.
        await self._client.register(self.group, self._on_sync_interest)
        self._arm_timer()

    async def close(self) -> None:
        """Leave the group, and serve its publications no longer."""
        self._closed = True
        self._news.set()
        if self._timer is not None:
            self._timer.cancel()
        for prefix in (self.group, self._publication_prefix):
            await self._client.unregister(prefix)

    @property
    def vector(self) -> StateVector:
        """The state vector of the group, as this member knows it."""
        return self._running().vector

    def publish(self, content: bytes) -> Name:
        """Publish ``content``, and announce it to the group; returns its name.

        Raises:
            TransportError: it does not fit into a packet that every NDN program accepts.
        """
        protocol = self._running()
        name = publication_name(self.group, self.member, protocol.vector[self.member] + 1)
        packet = wire.encode_data(name, content, signer=self._signer, freshness_s=_FRESHNESS_S)
        wire.check_size(packet, name)
        self._published[protocol.publish(self._now_s())] = packet
        self._say_what_is_known()
        return name

    async def updates(self) -> AsyncIterator[Update]:
        """Publications of the other members as they are announced, until the group is closed."""
        while True:
            while self._unread:
                yield self._unread.pop(next(iter(self._unread)))
            if self._closed:
                return
            self._news.clear()
            await self._news.wait()

    async def fetch(self, update: Update, *, deadline_s: float = 4.0) -> list[ReceivedData]:
        """The publications of an update, validated, oldest first.

        It requests a few at once, and no more after one has failed: a state vector may announce
        publications that do not exist.

        Raises:
            InterestTimeout: one of them was not answered in time.
            SecurityError: the validator refused one of them.
        """
        names = iter(enumerate(update.names(self.group)))
        fetched: dict[int, ReceivedData] = {}

        async def fetch_more() -> None:
            for number, name in names:
                fetched[number] = await self._client.express(
                    name, deadline_s=deadline_s, validator=self._validator
                )

        fetches = [asyncio.ensure_future(fetch_more()) for _ in range(_FETCH_WINDOW)]
        try:
            await asyncio.gather(*fetches)
        finally:
            for fetch in fetches:
                fetch.cancel()
            await asyncio.gather(*fetches, return_exceptions=True)
        return [fetched[number] for number in sorted(fetched)]

    async def _ask_for_multicast(self) -> None:
        choice = ControlParameters(name=self.group, strategy=as_name(_MULTICAST))
        try:
            await self._client.management.command("strategy-choice", "set", choice)
        except CommandRefused as refused:
            _log.warning(
                "%s has no multicast strategy here, so members at this forwarder may not receive "
                "each other: %s", self.group, refused,
            )  # fmt: skip

    async def _on_sync_interest(self, interest: ReceivedInterest) -> Answer:
        if not self._sync_name.is_prefix_of(interest.name):
            return None
        try:
            data = wire.parse_data(interest.parameters or b"")
            if data.name != self._sync_name:
                raise MalformedPacket(f"{data.name} is not {self._sync_name}")
            await self._validator.check(str(data.name), data)
            received = StateVector.decode(data.content)
            merged = self._running().on_vector(received, self._now_s(), time.time())
        except (MalformedPacket, SecurityError) as error:
            _log.warning("ignored a state vector for %s: %s", self.group, error)
            return None
        if merged.doubts:
            _log.warning(
                "ignored %d entries of a state vector for %s: %s",
                len(merged.doubts), self.group, "; ".join(merged.doubts[:_DOUBTS_SAID]),
            )  # fmt: skip
        if received[self.member] > self.vector[self.member]:
            _log.warning(
                "a state vector for %s claims %d publications of %s, which has made %d: it is "
                "forged, or two programs use this name; join again with a new bootstrap time",
                self.group, received[self.member], self.member.node, self.vector[self.member],
            )  # fmt: skip
        for update in merged.updates:
            self._add(update)
        self._arm_timer()
        return None

    def _add(self, update: Update) -> None:
        """Queue it for :meth:`updates`, merged with an unread update of the same member."""
        earlier = self._unread.get(update.member, update)
        self._unread[update.member] = Update(update.member, earlier.low, update.high)
        self._news.set()

    def _on_publication_interest(self, interest: ReceivedInterest) -> Answer:
        seq = number_at(interest.name, -1, ComponentType.SEQUENCE_NUM)
        packet = None if seq is None else self._published.get(seq)
        if seq is None or interest.name != publication_name(self.group, self.member, seq):
            return None
        return packet

    def _say_what_is_known(self) -> None:
        vector = wire.encode_data(self._sync_name, self.vector.encode(), signer=self._signer)
        interest = wire.encode_interest(
            self._sync_name, lifetime_s=_INTEREST_LIFETIME_S, parameters=vector
        )
        try:
            self._client.send(interest)
        except TransportError as error:  # too many members for a packet
            _log.error("cannot send the state vector of %s: %s", self.group, error)
        self._arm_timer()

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._running().deadline_s, self._on_timer)

    def _on_timer(self) -> None:
        if self._running().on_timer(self._now_s()):
            self._say_what_is_known()
        else:
            self._arm_timer()

    def _running(self) -> SyncProtocol:
        if self._protocol is None:
            raise TransportError("the group is not open: use `async with SyncGroup(...)`")
        return self._protocol

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
