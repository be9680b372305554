"""From the name of an object to the name that its segments are below."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet.errors import InterestRefused, InterestTimeout, MalformedPacket
from innet.names import METADATA, Name, number_at, with_keyword
from innet.ndn.objects.believed import fetch_believed
from innet.ndn.objects.metadata import decode_metadata
from innet.security.signers import SignatureType
from innet.security.validation import ReceivedData, Validator
from innet.tlv_numbers import ComponentType, ContentType

if TYPE_CHECKING:
    from innet.ndn.client import Client

_HEAD_START_S = 1.0
"""What metadata have before any packet of the object is asked for."""


async def discover_version(
    client: Client,
    name: Name,
    *,
    validator: Validator | None = None,
    deadline_s: float = 4.0,
) -> Name:
    """The name of the latest version of ``name``, by its RDR metadata, whoever else answers.

    Raises:
        InterestTimeout: nobody has metadata of it.
        InterestRefused: a forwarder says that nobody can have it.
        SecurityError: none that may be believed came before the deadline.
        MalformedPacket: they say nothing.
    """
    metadata = await fetch_believed(
        client, with_keyword(name, METADATA), validator, deadline_s=deadline_s, can_be_prefix=True
    )
    return decode_metadata(metadata)


@dataclass(frozen=True)
class Place:
    """Where an object is.

    Attributes:
        name: what its segments are below, or its packet's.
        packet: the object, when it is one packet without a segment number.
    """

    name: Name
    packet: ReceivedData | None = None


async def locate(
    client: Client, name: Name, *, exact: bool, validator: Validator, deadline_s: float
) -> Place:
    """Where the latest version of ``name`` is.

    A name that ends with a version, or is ``exact``, is taken as it is. Of any other, RDR metadata
    are asked for first; where there are none, whatever packet is below the name shows how it goes
    on, as older programs publish.

    Raises:
        InterestTimeout: nobody has anything below this name.
        InterestRefused: a forwarder says that nobody can have.
        SecurityError: what came may not be believed.
        MalformedPacket: what there is cannot be read: a manifest that is not of our form.
    """
    if exact or number_at(name, -1, ComponentType.VERSION) is not None:
        return Place(name)
    ways = [
        asyncio.ensure_future(_by_metadata(client, name, validator, deadline_s)),
        asyncio.ensure_future(_by_any_packet(client, name, validator, deadline_s)),
    ]
    try:
        return await _first_success(ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _by_metadata(
    client: Client, name: Name, validator: Validator, deadline_s: float
) -> Place:
    return Place(await discover_version(client, name, validator=validator, deadline_s=deadline_s))


async def _by_any_packet(
    client: Client, name: Name, validator: Validator, deadline_s: float
) -> Place:
    """Later than metadata: a cache may have a packet of an older version."""
    await asyncio.sleep(min(_HEAD_START_S, deadline_s / 2))
    data = await fetch_believed(
        client, name, _UnlessUnsigned(validator), deadline_s=deadline_s, can_be_prefix=True
    )
    if number_at(data.name, -1, ComponentType.SEGMENT) is not None:
        return Place(data.name.parent())
    if data.content_type == ContentType.MANIFEST:
        raise MalformedPacket(
            f"{data.name} is a manifest (ContentType {ContentType.MANIFEST}) of a form that is not "
            "read here: fetch what it lists by the names of its segments"
        )
    await validator.check(str(data.name), data)
    return Place(data.name, data)


async def _first_success(ways: Sequence[asyncio.Future[Place]]) -> Place:
    """What one of them finds; if none does, what came and cannot be read, or the first error."""
    waiting = set(ways)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            failure = way.exception()
            if failure is None:
                return way.result()
            if not isinstance(failure, InterestTimeout | InterestRefused | MalformedPacket):
                raise failure
    unreadable = (way for way in ways if isinstance(way.exception(), MalformedPacket))
    return next(unreadable, ways[0]).result()


class _UnlessUnsigned:
    """Lets an unsigned segment show where its object is: manifests vouch for it afterwards."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    async def check(self, name: str, data: ReceivedData) -> None:
        is_segment = number_at(data.name, -1, ComponentType.SEGMENT) is not None
        if not (is_segment and data.signature_type == SignatureType.NULL):
            await self._validator.check(name, data)
