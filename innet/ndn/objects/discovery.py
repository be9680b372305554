"""Finds the latest version of an object: by RDR metadata, or by requesting any segment.

Source of the metadata: the NDN project's "Realtime Data Retrieval (RDR)" protocol. The packet is
below ``<object>/32=metadata`` and requested with CanBePrefix and MustBeFresh; its Content begins
with the name of that version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet._native import _core
from innet.errors import InterestRefused, InterestTimeout, MalformedPacket, SecurityError
from innet.names import METADATA, Name, number_at, with_keyword, with_segment, with_version
from innet.ndn import wire
from innet.security.signers import Signer
from innet.security.validation import ReceivedData, Validator
from innet.tlv_numbers import ComponentType, ContentType, SignatureType, TlvType

if TYPE_CHECKING:
    from innet.ndn.client import Client


FRESHNESS_S = 1.0
"""How long a cached metadata packet is fresh."""


def encode_metadata(name: Name, versioned: Name, version: int, signer: Signer) -> bytes:
    """The metadata packet of ``name`` while ``versioned`` is its latest version."""
    return wire.encode_data(
        with_segment(with_version(with_keyword(name, METADATA), version), 0),
        _core.encode_element(TlvType.NAME, versioned.value()),
        freshness_s=FRESHNESS_S,
        final_component=with_segment("/", 0),
        signer=signer,
    )


def decode_metadata(data: ReceivedData) -> Name:
    """The name of the latest version.

    Raises:
        MalformedPacket: the packet has no name.
    """
    elements = wire.parsed(_core.read_elements, data.content)
    if not elements or elements[0][0] != TlvType.NAME:
        raise MalformedPacket(f"{data.name} is no RDR metadata: its Content begins with no name")
    return wire.parsed(Name.from_value, elements[0][1])


_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.5


async def fetch_believed(
    client: Client,
    name: Name,
    validator: Validator | None,
    *,
    deadline_s: float,
    can_be_prefix: bool = False,
    refused: SecurityError | None = None,
) -> ReceivedData:
    """Fetch the Data ``name``. Answers that the validator refuses are dropped.

    After one, Interests have MustBeFresh, and pauses between them double. Innet's nodes never take
    a root manifest in their cache for fresh.

    Args:
        validator: in place of the client's.
        can_be_prefix: longer names match too; MustBeFresh is set from the start.
        refused: the validator's error for an earlier answer.

    Raises:
        SecurityError: the validator refused every answer; the message counts them.
        InterestTimeout: no answer arrived.
        InterestRefused: a forwarder has no route to a producer.
    """
    clock = asyncio.get_running_loop().time
    end_s = clock() + deadline_s
    answers = 0 if refused is None else 1
    pause_s = _FIRST_PAUSE_S
    while refused is None or clock() < end_s:
        try:
            return await client.express(
                name,
                validator=validator,
                can_be_prefix=can_be_prefix,
                must_be_fresh=can_be_prefix or refused is not None,
                deadline_s=max(end_s - clock(), 0.001),
            )
        except SecurityError as error:
            refused = error
            answers += 1
        except (InterestTimeout, InterestRefused):
            if refused is None:
                raise
            break
        await asyncio.sleep(min(pause_s, max(end_s - clock(), 0.0)))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise SecurityError(
        f"{name}: the validator refused all {answers} answers within {deadline_s:g} s; the last: "
        f"{refused}"
    ) from refused


_HEAD_START_S = 1.0
"""Time for metadata to arrive before the client requests any packet of the object."""


async def discover_version(
    client: Client,
    name: Name,
    *,
    validator: Validator | None = None,
    deadline_s: float = 4.0,
) -> Name:
    """The name of the latest version of ``name``, by its RDR metadata. Forged answers are dropped.

    Raises:
        InterestTimeout: no metadata arrived.
        InterestRefused: a forwarder has no route to a producer.
        SecurityError: the validator refused all metadata that arrived before the deadline.
        MalformedPacket: the metadata names no version.
    """
    metadata = await fetch_believed(
        client, with_keyword(name, METADATA), validator, deadline_s=deadline_s, can_be_prefix=True
    )
    return decode_metadata(metadata)


@dataclass(frozen=True)
class LocatedObject:
    """Where an object is.

    Attributes:
        name: the prefix of its segments, or the name of its packet.
        packet: the object, when it is one packet without a segment number.
    """

    name: Name
    packet: ReceivedData | None = None


async def locate(
    client: Client, name: Name, *, exact: bool, validator: Validator, deadline_s: float
) -> LocatedObject:
    """Where the latest version of ``name`` is.

    A name that ends with a version, or is ``exact``, is used unchanged. For any other name, the
    client requests RDR metadata first. Older programs publish none: then any packet below the name
    shows the rest of it.

    Raises:
        InterestTimeout: no Data below this name arrived.
        InterestRefused: a forwarder has no route to a producer.
        SecurityError: the validator refused every answer.
        MalformedPacket: the object has a manifest of another format.
    """
    if exact or number_at(name, -1, ComponentType.VERSION) is not None:
        return LocatedObject(name)
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
) -> LocatedObject:
    return LocatedObject(
        await discover_version(client, name, validator=validator, deadline_s=deadline_s)
    )


async def _by_any_packet(
    client: Client, name: Name, validator: Validator, deadline_s: float
) -> LocatedObject:
    """Later than metadata: a cache may have a packet of an older version."""
    await asyncio.sleep(min(_HEAD_START_S, deadline_s / 2))
    data = await fetch_believed(
        client, name, _UnlessUnsigned(validator), deadline_s=deadline_s, can_be_prefix=True
    )
    if number_at(data.name, -1, ComponentType.SEGMENT) is not None:
        return LocatedObject(data.name.parent())
    if data.content_type == ContentType.MANIFEST:
        raise MalformedPacket(
            f"{data.name} is a manifest (ContentType {ContentType.MANIFEST}) of a form that innet "
            "does not read: fetch the segments that it lists by their names"
        )
    await validator.check(str(data.name), data)
    return LocatedObject(data.name, data)


async def _first_success(ways: Sequence[asyncio.Future[LocatedObject]]) -> LocatedObject:
    """The first result; without one, the error of an unreadable answer, or the first error."""
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
