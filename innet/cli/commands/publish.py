"""``innet publish``: publishes a file under a name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.key_choice import PassphraseFile, stored_identity
from innet.cli.text_output import say
from innet.quantities import counted

if TYPE_CHECKING:
    from innet.ndn.objects import PublishedObject

EXAMPLES = options.examples(
    "innet publish /alice/photo photo.jpg",
    "innet publish /lab/alice/model model.bin --manifest --key /lab/alice",
    "tar c photos | innet publish /alice/photos /dev/stdin",
    "innet publish /alice/notes notes.txt --version 7 --forwarder tcp://router:6363",
)


def publish(
    name: options.NdnName,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="File to publish; a pipe ([cyan]/dev/stdin[/]) is read to its end",
        ),
    ],
    version: Annotated[
        int | None, typer.Option(min=0, help="Microseconds since 1970 by default")
    ] = None,
    segment_bytes: Annotated[
        int, typer.Option(min=1, max=8700, help="Bytes of content per packet", metavar="BYTES")
    ] = 8000,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="Sign once for all segments, in a manifest")
    ] = False,
    freshness_s: Annotated[
        float,
        options.time_option(
            "--freshness",
            least_s=0,
            help="Freshness period of segments, for caches of other forwarders: a node of innet "
            "answers MustBeFresh only with Data of keys that it knows",
            default="10s",
        ),
    ] = 10.0,
    key: options.SigningKey = None,
    passphrase_file: PassphraseFile = None,
    forwarder: options.Forwarder = None,
) -> None:
    """Publish a file in segments under a versioned name, until interrupted.

    [cyan]innet fetch[/] finds it, and so do ndnget (ndncatchunks), NDNts and python-ndn. Without
    [cyan]--key[/], packets have a SHA-256 digest, which detects damage but does not authenticate.
    The key also signs commands to the forwarder. If the file changes, the command ends with an
    error.
    """
    from innet.ndn.objects import publish

    signer, certificates = stored_identity(key, passphrase_file)

    async def serve() -> None:
        from innet.ndn import Client
        from innet.ndn.certificates import serve_certificates

        async with Client(forwarder, signer=signer, command_signer=signer) as client:
            await serve_certificates(client, certificates)
            published = await publish(
                client,
                name,
                file,
                version=version,
                segment_bytes=segment_bytes,
                manifest=manifest,
                freshness_s=freshness_s,
            )
            await _until_interrupted(published)

    asyncio.run(serve())


async def _until_interrupted(published: PublishedObject) -> None:
    async with published:
        say(
            f"{published.versioned}: {counted(published.segments, 'segment')}; Ctrl-C ends it",
            err=True,
        )
        await published.until_failure()
