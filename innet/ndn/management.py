"""A forwarder's commands and datasets (NFD's management protocol), and a client's prefixes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet.backoff import Backoff
from innet.errors import CommandRefused, InterestTimeout, SecurityError, TransportError
from innet.names import Name, as_name
from innet.ndn import control
from innet.ndn.control import ControlParameters, ControlResponse
from innet.ndn.objects.object_fetch import FetchOptions, ObjectFetch
from innet.ndn.objects.sink import MemorySink
from innet.security.signers import Signer
from innet.security.validation import IntegrityValidator

if TYPE_CHECKING:
    from innet.ndn.client import Client

_DEADLINE_S = 4.0
_COMMAND_COMPONENTS = 4


class Management:
    """The management of the forwarder that ``client`` is connected to.

    Args:
        client: sends Interests.
        signer: signs commands.

    Example::

        reply = await client.management.command(
            "strategy-choice", "set", ControlParameters(name=Name("/a"), strategy=Name(MULTICAST))
        )
    """

    def __init__(self, client: Client, signer: Signer) -> None:
        self._client = client
        self._signer = signer
        self._one_at_a_time = asyncio.Lock()

    async def command(
        self,
        module: str,
        verb: str,
        parameters: ControlParameters,
        *,
        deadline_s: float = _DEADLINE_S,
    ) -> ControlParameters | None:
        """Give a command, such as ``rib/register``.

        Returns:
            The parameters that the forwarder reports, with its own choices; ``None`` without a
            report.

        Raises:
            CommandRefused: the forwarder refused it.
            InterestTimeout: it did not answer.
        """
        name = control.command_name(module, verb, parameters)
        return await self._response(name, b"", deadline_s)

    async def announce(self, announcement: bytes) -> ControlParameters | None:
        """Send a prefix announcement (:func:`innet.ndn.control.encode_prefix_announcement`).

        Raises:
            CommandRefused: the forwarder refused it.
            InterestTimeout: it did not answer.
        """
        name = as_name(f"{control.LOCAL_MANAGEMENT}/rib/announce")
        return await self._response(name, announcement, _DEADLINE_S)

    async def dataset(self, name: str) -> bytes:
        """A dataset of the forwarder, such as ``fib/list``, in elements of NFD's protocol.

        Raises:
            InterestTimeout: it did not answer.
            ObjectIncomplete: it stopped answering.
        """
        first = await self._client.express(
            f"{control.LOCAL_MANAGEMENT}/{name}",
            can_be_prefix=True,
            must_be_fresh=True,
            validator=IntegrityValidator(),
        )
        options = FetchOptions(validator=IntegrityValidator(), patience_s=_DEADLINE_S)
        fetch = ObjectFetch(self._client, first.name.parent(), MemorySink(), options)
        return (await fetch.run()).content

    async def _response(
        self, name: Name, parameters: bytes, deadline_s: float
    ) -> ControlParameters | None:
        command = name.prefix(_COMMAND_COMPONENTS)
        async with self._one_at_a_time:
            # Forwarders accept a key's commands only with ascending times in milliseconds.
            await asyncio.sleep(0.001)
            try:
                data = await self._client.express(
                    name,
                    parameters=parameters,
                    signer=self._signer,
                    must_be_fresh=True,
                    deadline_s=deadline_s,
                    validator=IntegrityValidator(),
                )
            except InterestTimeout as error:
                raise InterestTimeout(
                    f"the forwarder did not answer {command}: does it have management "
                    "(`innet forwarder`, NFD)?"
                ) from error
        response = ControlResponse.decode(data.content)
        if response.code != control.OK:
            raise CommandRefused(
                f"the forwarder refused {command}: {response.code} {response.text}", response.code
            )
        return response.parameters


_CLOSING_DEADLINE_S = 0.5
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    register: Callable[[], Awaitable[object]]
    unregister: ControlParameters


class PrefixRegistrations:
    """The registered prefixes of a client, which a lost connection does not end."""

    def __init__(self, management: Management) -> None:
        self._management = management
        self._wanted: dict[Name, _Wanted] = {}
        self._forgotten: set[Name] = set()
        self._restarts = 0
        self._renewing = False
        self._restarted = asyncio.Event()

    async def add(self, prefix: Name, *, cost: int) -> None:
        """Register ``prefix``, now and whenever the forwarder may have lost it."""
        parameters = ControlParameters(
            name=prefix, origin=control.ORIGIN_APP, cost=cost, flags=control.CHILD_INHERIT
        )

        async def register() -> object:
            return await self._management.command("rib", "register", parameters)

        await self._want(prefix, register, control.ORIGIN_APP)

    async def announce(self, prefix: Name, *, expiration_s: float, signer: Signer) -> None:
        """Register ``prefix`` by a prefix announcement, otherwise as :meth:`add`."""

        async def announce() -> object:
            return await self._management.announce(
                control.encode_prefix_announcement(prefix, expiration_s=expiration_s, signer=signer)
            )

        await self._want(prefix, announce, control.ORIGIN_ANNOUNCEMENT)

    async def remove(self, prefix: Name) -> None:
        """Unregister ``prefix``; no effect if it was not registered."""
        if (wanted := self._wanted.pop(prefix, None)) is not None:
            await self._management.command("rib", "unregister", wanted.unregister)

    async def renew(self) -> None:
        """Register all prefixes again after a lost connection, and retry those that fail.

        Another call meanwhile, after another lost connection, starts again with all prefixes.
        """
        self._restarts += 1
        self._forgotten.update(self._wanted)
        self._restarted.set()
        if self._renewing:
            return
        self._renewing = True
        backoff = Backoff(variation=0)
        try:
            while self._forgotten:
                self._restarted.clear()
                for prefix in list(self._forgotten):
                    await self._renew(prefix)
                if self._forgotten and await self._restarts_within(backoff.next_s()):
                    backoff.reset()
        finally:
            self._renewing = False

    async def close(self) -> None:
        """Unregister all prefixes, until the forwarder fails to answer."""
        all_wanted, self._wanted = self._wanted, {}
        for prefix, wanted in all_wanted.items():
            try:
                await self._management.command(
                    "rib", "unregister", wanted.unregister, deadline_s=_CLOSING_DEADLINE_S
                )
            except TransportError as error:
                _log.info("%s was not unregistered: %s", prefix, error)
                return

    async def _want(
        self, prefix: Name, register: Callable[[], Awaitable[object]], origin: int
    ) -> None:
        await register()
        self._wanted[prefix] = _Wanted(register, ControlParameters(name=prefix, origin=origin))

    async def _renew(self, prefix: Name) -> None:
        """Register it once; a failure leaves it for the next round."""
        wanted = self._wanted.get(prefix)
        restarts = self._restarts
        if wanted is not None:
            try:
                await wanted.register()
            except (TransportError, SecurityError) as error:
                _log.warning("cannot register %s again yet: %s", prefix, error)
                return
        if restarts == self._restarts:
            self._forgotten.discard(prefix)

    async def _restarts_within(self, pause_s: float) -> bool:
        try:
            async with asyncio.timeout(pause_s):
                await self._restarted.wait()
        except TimeoutError:
            return False
        return True
