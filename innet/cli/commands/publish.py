"""``innet publish``: a file under a name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from innet.cli import options

EXAMPLES = options.examples(
    "innet publish /alice/photo photo.jpg",
    "innet publish /alice/model model.bin --manifest",
    "innet publish /alice/notes notes.txt --version 7 --forwarder tcp://router:6363",
)


def publish(
    name: options.NdnName,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="To publish")
    ],
    version: Annotated[
        int | None, typer.Option(min=0, help="Microseconds since 1970 by default")
    ] = None,
    segment_bytes: Annotated[
        int, typer.Option(min=1, max=8700, help="Content of a packet", metavar="BYTES")
    ] = 8000,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="Sign once for all segments, in a manifest")
    ] = False,
    freshness_s: Annotated[
        float,
        typer.Option("--freshness", metavar="SECONDS", min=0, help="Caches call a segment fresh"),
    ] = 10.0,
    forwarder: options.Forwarder = None,
) -> None:
    """Publish a file in segments under a versioned name, until interrupted.

    [cyan]innet fetch[/] finds it, and so do ndnget (ndncatchunks), NDNts and python-ndn. Packets
    carry a SHA-256 digest, which shows damage and not who published.
    """
    asyncio.run(_publish(name, file, version, segment_bytes, manifest, freshness_s, forwarder))


async def _publish(
    name: str,
    file: Path,
    version: int | None,
    segment_bytes: int,
    manifest: bool,
    freshness_s: float,
    forwarder: str | None,
) -> None:
    from innet.ndn import Client
    from innet.ndn.objects import publish

    async with (
        Client(forwarder) as client,
        await publish(
            client,
            name,
            file,
            version=version,
            segment_bytes=segment_bytes,
            manifest=manifest,
            freshness_s=freshness_s,
        ) as published,
    ):
        typer.echo(
            f"{published.versioned}: {published.segments} segments; Ctrl-C ends it", err=True
        )
        await asyncio.Event().wait()
