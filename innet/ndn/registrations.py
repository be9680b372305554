"""The prefixes that a client has asked its forwarder to send to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from innet.backoff import Backoff
from innet.errors import SecurityError, TransportError
from innet.names import Name
from innet.ndn import control
from innet.ndn.control import ControlParameters
from innet.ndn.management import Management
from innet.security.signers import Signer

_CLOSING_DEADLINE_S = 0.5
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    register: Callable[[], Awaitable[object]]
    unregister: ControlParameters


class Registrations:
    """Registers, renews after a loss of the connection, and takes back at the end."""

    def __init__(self, management: Management) -> None:
        self._management = management
        self._wanted: dict[Name, _Wanted] = {}
        self._forgotten: set[Name] = set()
        self._restarts = 0
        self._renewing = False
        self._restarted = asyncio.Event()

    async def add(self, prefix: Name, *, cost: int) -> None:
        """Register ``prefix``, now and whenever the forwarder may have forgotten it."""
        parameters = ControlParameters(
            name=prefix, origin=control.ORIGIN_APP, cost=cost, flags=control.CHILD_INHERIT
        )

        async def register() -> object:
            return await self._management.command("rib", "register", parameters)

        await self._want(prefix, register, control.ORIGIN_APP)

    async def announce(self, prefix: Name, *, expiration_s: float, signer: Signer) -> None:
        """The same by a prefix announcement."""

        async def announce() -> object:
            return await self._management.announce(
                control.encode_prefix_announcement(prefix, expiration_s=expiration_s, signer=signer)
            )

        await self._want(prefix, announce, control.ORIGIN_ANNOUNCEMENT)

    async def remove(self, prefix: Name) -> None:
        """Take ``prefix`` back; one that was never registered is none of the forwarder's."""
        if (wanted := self._wanted.pop(prefix, None)) is not None:
            await self._management.command("rib", "unregister", wanted.unregister)

    async def renew(self) -> None:
        """Register everything again, until each is done: the forwarder was away.

        Called again meanwhile, for it was away once more, it begins anew with all of them.
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
        """Take everything back, as far as the forwarder still listens."""
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
        """Try it once; one that is refused holds up none of the others."""
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
