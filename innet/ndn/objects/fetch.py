"""Fetching objects: the version found, segments in a window, each validated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from innet.names import Name, as_name
from innet.ndn.objects.discovery import locate
from innet.ndn.objects.object_fetch import (
    FetchedObject,
    FetchOptions,
    ObjectFetch,
    Progress,
    too_large,
)
from innet.ndn.objects.sink import FileSink, MemorySink, Sink
from innet.security.validation import Validator

if TYPE_CHECKING:
    from innet.ndn.client import Client


async def fetch(
    client: Client,
    name: Name | str,
    *,
    into: Path | None = None,
    exact: bool = False,
    validator: Validator | None = None,
    patience_s: float = 8.0,
    most_bytes: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> FetchedObject:
    """Fetch an object, published by any NDN implementation.

    Args:
        name: of the object. RDR metadata give its latest version or, where there are none, any
            packet below the name. A name that ends with a version is fetched unchanged.
        into: a file, which appears when the object is complete; memory by default.
        exact: the segments are right below ``name``, which has no version.
        validator: in place of the client's: of metadata and segments, or of the root manifest.
        patience_s: how long a packet may go unanswered.
        most_bytes: of content; a larger object is refused as soon as its size is known.
        on_progress: called after every segment.

    Raises:
        InterestTimeout: no Data of this name arrived.
        InterestRefused: a forwarder has no route to a producer.
        ObjectIncomplete: some segments did not arrive. Its ``missing`` names them; ``resume()``
            continues from there.
        SecurityError: the validator refused a packet.
        MalformedPacket: a manifest, or metadata, of a form that innet does not read.
        TransportError: the file cannot be written, or the object is too large.
    """
    believed = validator or client.validator
    place = await locate(
        client, as_name(name), exact=exact, validator=believed, deadline_s=patience_s
    )
    single = None if place.packet is None else place.packet.content
    if single is not None and most_bytes is not None and len(single) > most_bytes:
        raise too_large(place.name, most_bytes)
    sink: Sink = MemorySink() if into is None else FileSink(into)
    if single is not None:
        await sink.write([single])
        return FetchedObject(
            name=place.name,
            content=await sink.finish() or b"",
            size_bytes=sink.size_bytes,
            segments=1,
            signed_once=False,
        )
    options = FetchOptions(
        validator=believed,
        patience_s=patience_s,
        most_bytes=most_bytes,
        on_progress=on_progress,
    )
    return await ObjectFetch(client, place.name, sink, options).run()
