"""The prefixes that a client has asked its forwarder to send to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet.errors import CommandRefused, InterestTimeout, TransportError
from innet.ndn import control
from innet.ndn.control import ControlParameters, ControlResponse
from innet.ndn.names import Name, as_name
from innet.ndn.signers import Signer
from innet.ndn.validation import IntegrityValidator

if TYPE_CHECKING:
    from innet.ndn.client import Client

_DEADLINE_S = 4.0
_CLOSING_DEADLINE_S = 0.5
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Wanted:
    register: Callable[[], Awaitable[object]]
    origin: int


class Registrations:
    """Registers, renews after a loss of the connection, and takes back at the end.

    Args:
        client: sends the commands.
        signer: signs them.
    """

    def __init__(self, client: Client, signer: Signer) -> None:
        self._client = client
        self._signer = signer
        self._wanted: dict[Name, _Wanted] = {}
        self._one_at_a_time = asyncio.Lock()

    async def add(self, prefix: Name, *, cost: int) -> None:
        """Register ``prefix``, now and whenever the forwarder may have forgotten it."""

        async def register() -> object:
            return await self.command(
                "rib",
                "register",
                ControlParameters(
                    name=prefix,
                    origin=control.ORIGIN_APP,
                    cost=cost,
                    flags=control.CHILD_INHERIT,
                ),
            )

        await register()
        self._wanted[prefix] = _Wanted(register, control.ORIGIN_APP)

    async def announce(self, prefix: Name, *, expiration_s: float) -> None:
        """The same by a prefix announcement."""

        async def announce() -> object:
            announcement = control.encode_prefix_announcement(
                prefix, expiration_s=expiration_s, signer=self._client.signer
            )
            name = as_name(f"{control.LOCAL_MANAGEMENT}/rib/announce")
            return await self._obeyed(name, announcement)

        await announce()
        self._wanted[prefix] = _Wanted(announce, control.ORIGIN_ANNOUNCEMENT)

    async def remove(self, prefix: Name) -> None:
        """Take ``prefix`` back; one that was never registered is none of the forwarder's."""
        if (wanted := self._wanted.pop(prefix, None)) is not None:
            await self._unregister(prefix, wanted.origin)

    async def renew(self) -> None:
        """Register everything again, until each is done: the forwarder was away."""
        for prefix in list(self._wanted):
            pause_s = _FIRST_PAUSE_S
            while (wanted := self._wanted.get(prefix)) is not None:
                try:
                    await wanted.register()
                    break
                except TransportError as error:
                    _log.warning("cannot register %s again yet: %s", prefix, error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Take everything back, as far as the forwarder still listens."""
        all_wanted, self._wanted = self._wanted, {}
        for prefix, wanted in all_wanted.items():
            try:
                await self._unregister(prefix, wanted.origin, deadline_s=_CLOSING_DEADLINE_S)
            except TransportError as error:
                _log.info("%s was not taken back: %s", prefix, error)
                return

    async def command(
        self,
        module: str,
        verb: str,
        parameters: ControlParameters,
        *,
        deadline_s: float = _DEADLINE_S,
    ) -> ControlParameters | None:
        """Give the forwarder a command, such as ``rib/register``.

        Returns:
            What it has done, with its own choices, when it says so.

        Raises:
            CommandRefused: it did not obey.
            InterestTimeout: it did not answer.
        """
        name = control.command_name(module, verb, parameters)
        return await self._obeyed(name, b"", deadline_s=deadline_s)

    async def _unregister(
        self, prefix: Name, origin: int, *, deadline_s: float = _DEADLINE_S
    ) -> None:
        parameters = ControlParameters(name=prefix, origin=origin)
        await self.command("rib", "unregister", parameters, deadline_s=deadline_s)

    async def _obeyed(
        self, name: Name, parameters: bytes, *, deadline_s: float = _DEADLINE_S
    ) -> ControlParameters | None:
        async with self._one_at_a_time:
            # Forwarders take commands of one key with ascending times alone, in milliseconds.
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
                    f"the forwarder did not answer {name.prefix(4)}: does it have management "
                    "(`innet forwarder`, NFD)?"
                ) from error
        response = ControlResponse.decode(data.content)
        if response.code != control.OK:
            raise CommandRefused(
                f"the forwarder refused {name.prefix(4)}: {response.code} {response.text}",
                response.code,
            )
        return response.parameters
