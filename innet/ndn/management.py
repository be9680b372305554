"""Commands and questions to a forwarder, by NFD's management protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from innet.errors import CommandRefused, InterestTimeout
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
            What the forwarder has done, with its own choices, when it says so.

        Raises:
            CommandRefused: it did not obey.
            InterestTimeout: it did not answer.
        """
        name = control.command_name(module, verb, parameters)
        return await self._obeyed(name, b"", deadline_s)

    async def announce(self, announcement: bytes) -> ControlParameters | None:
        """Give it a prefix announcement (:func:`innet.ndn.control.encode_prefix_announcement`).

        Raises:
            CommandRefused: it does not take it.
            InterestTimeout: it did not answer.
        """
        name = as_name(f"{control.LOCAL_MANAGEMENT}/rib/announce")
        return await self._obeyed(name, announcement, _DEADLINE_S)

    async def dataset(self, name: str) -> bytes:
        """What the forwarder says of itself, such as ``fib/list``: elements of NFD's protocol.

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

    async def _obeyed(
        self, name: Name, parameters: bytes, deadline_s: float
    ) -> ControlParameters | None:
        command = name.prefix(_COMMAND_COMPONENTS)
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
                    f"the forwarder did not answer {command}: does it have management "
                    "(`innet forwarder`, NFD)?"
                ) from error
        response = ControlResponse.decode(data.content)
        if response.code != control.OK:
            raise CommandRefused(
                f"the forwarder refused {command}: {response.code} {response.text}", response.code
            )
        return response.parameters
