"""From the name of an object to the name that its segments are below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet.errors import InterestRefused, InterestTimeout
from innet.ndn.names import METADATA, SEGMENT, VERSION, Name, number_at, with_keyword
from innet.ndn.objects.metadata import decode_metadata
from innet.ndn.signers import SignatureType
from innet.ndn.validation import ReceivedData, Validator

if TYPE_CHECKING:
    from innet.ndn.client import Client


async def discover_version(
    client: Client,
    name: Name,
    *,
    validator: Validator | None = None,
    deadline_s: float = 4.0,
) -> Name:
    """The name of the latest version of ``name``, by its RDR metadata.

    Raises:
        InterestTimeout: nobody has metadata of it.
        InterestRefused: a forwarder says that nobody can have it.
        SecurityError: the metadata may not be believed.
        MalformedPacket: they say nothing.
    """
    metadata = await client.express(
        with_keyword(name, METADATA),
        can_be_prefix=True,
        must_be_fresh=True,
        lifetime_s=min(1.0, deadline_s),
        deadline_s=deadline_s,
        validator=validator,
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
    """
    if exact or number_at(name, -1, VERSION) is not None:
        return Place(name)
    try:
        versioned = await discover_version(
            client, name, validator=validator, deadline_s=deadline_s / 2
        )
        return Place(versioned)
    except (InterestTimeout, InterestRefused):
        data = await client.express(
            name,
            can_be_prefix=True,
            must_be_fresh=True,
            deadline_s=deadline_s / 2,
            validator=_UnlessUnsigned(validator),
        )
    if number_at(data.name, -1, SEGMENT) is not None:
        return Place(data.name.parent())
    await validator.check(str(data.name), data)
    return Place(data.name, data)


class _UnlessUnsigned:
    """Lets an unsigned segment show where its object is: manifests vouch for it afterwards."""

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    async def check(self, name: str, data: ReceivedData) -> None:
        is_segment = number_at(data.name, -1, SEGMENT) is not None
        if not (is_segment and data.signature_type == SignatureType.NULL):
            await self._validator.check(name, data)
