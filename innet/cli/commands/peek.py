"""``innet peek``: fetches one packet by its name."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.text_output import say
from innet.quantities import counted

if TYPE_CHECKING:
    from innet.ndn import ReceivedData

EXAMPLES = options.examples(
    "innet peek /weather/today",
    "innet peek /weather --prefix --fresh --verbose",
    "innet peek /weather/today --packet | innet dissect -",
)


def peek(
    name: options.NdnName,
    prefix: Annotated[
        bool, typer.Option("--prefix", "-P", help="Accept Data with longer names (CanBePrefix)")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", "-f", help="Accept only fresh Data from caches (MustBeFresh)")
    ] = False,
    lifetime_s: Annotated[
        float,
        options.time_option(
            "--lifetime", "-l", least_s=0.001, help="Time to wait for the Data", default="4s"
        ),
    ] = 4.0,
    packet: Annotated[
        bool, typer.Option("--packet", help="Write the whole Data packet, not its content")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Describe the packet on stderr")
    ] = False,
    forwarder: options.Forwarder = None,
) -> None:
    """Fetch one Data packet and write its content, as ndnpeek -p does.

    Sends one Interest, without retransmission. The signature is not verified; a digest is.
    """
    data = asyncio.run(_peek(name, prefix, fresh, lifetime_s, forwarder))
    if verbose:
        signer = data.key_name or "no key"
        say(
            f"{data.name}: {counted(len(data.content), 'byte')}, "
            f"content type {data.content_type}, "
            f"fresh for {data.freshness_s:g} s, signature type {data.signature_type} by {signer}",
            err=True,
        )
    sys.stdout.buffer.write(data.wire if packet else data.content)
    sys.stdout.buffer.flush()


async def _peek(
    name: str, prefix: bool, fresh: bool, lifetime_s: float, forwarder: str | None
) -> ReceivedData:
    from innet.ndn import Client

    async with Client(forwarder) as client:
        return await client.express(
            name,
            can_be_prefix=prefix,
            must_be_fresh=fresh,
            lifetime_s=lifetime_s,
            deadline_s=lifetime_s,
        )
