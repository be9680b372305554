"""Objects: content larger than a packet, in segments, under versioned names.

::

    from innet.ndn.objects import fetch, publish

    async with await publish(client, "/alice/photo", Path("photo.jpg")):
        ...
    photo = await fetch(client, "/alice/photo")

:func:`publish` and :func:`fetch` are the way in. The state of a fetch (``segments.py``)
knows neither clock nor socket.
"""

from innet.ndn.objects.discovery import discover_version
from innet.ndn.objects.object_fetch import FetchedObject, FetchOptions, ObjectFetch, Progress, fetch
from innet.ndn.objects.publication import PublishedObject, publish

__all__ = [
    "FetchOptions",
    "FetchedObject",
    "ObjectFetch",
    "Progress",
    "PublishedObject",
    "discover_version",
    "fetch",
    "publish",
]
