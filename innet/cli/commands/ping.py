"""``innet ping``: measures round trips to a prefix."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from innet.cli import options
from innet.cli.key_choice import PassphraseFile, stored_identity
from innet.cli.text_output import say

if TYPE_CHECKING:
    from innet.ndn.certificates import CertifiedSigner
    from innet.security.trust import Certificate

EXAMPLES = options.examples(
    "innet ping /site/alice --serve",
    "innet ping /site/alice --serve --key /site/alice",
    "innet ping /site/alice --count 4",
    "innet ping /site/alice --interval 0.1 --forwarder tcp://router:6363",
)


def ping(
    prefix: options.NdnPrefix,
    count: Annotated[
        int | None,
        typer.Option("--count", "-c", min=1, help="Number of pings; until interrupted by default"),
    ] = None,
    interval_s: Annotated[
        float,
        options.time_option(
            "--interval", "-i", least_s=0, help="Time between two pings", default="1s"
        ),
    ] = 1.0,
    timeout_s: Annotated[
        float,
        options.time_option(
            "--timeout", "-o", least_s=0.001, help="Time to wait for an answer", default="4s"
        ),
    ] = 4.0,
    serve: Annotated[bool, typer.Option("--serve", help="Answer pings instead")] = False,
    key: options.SigningKey = None,
    passphrase_file: PassphraseFile = None,
    forwarder: options.Forwarder = None,
) -> None:
    """Measure round trips to a prefix, or answer them; interoperable with ndnping.

    Exit code 1: a ping was not answered. With [cyan]--serve[/], [cyan]--key[/] signs the answers
    and the commands to the forwarder.
    """
    if serve:
        signer, certificates = stored_identity(key, passphrase_file)
        asyncio.run(_serve(prefix, forwarder, signer, certificates))
        return
    if key is not None:
        raise typer.BadParameter("signs answers: it goes with --serve", param_hint="'--key'")
    if not asyncio.run(_ping(prefix, count, interval_s, timeout_s, forwarder)):
        raise typer.Exit(1)


async def _serve(
    prefix: str,
    forwarder: str | None,
    signer: CertifiedSigner | None,
    certificates: list[Certificate],
) -> None:
    from innet.ndn import Client
    from innet.ndn.certificates import serve_certificates
    from innet.ndn.ping import answer_ping, ping_prefix

    async with Client(forwarder, signer=signer, command_signer=signer) as client:
        await serve_certificates(client, certificates)
        await client.register(ping_prefix(prefix), partial(answer_ping, client))
        say(f"answering pings of {prefix}; Ctrl-C ends it", err=True)
        await asyncio.Event().wait()


async def _ping(
    prefix: str, count: int | None, interval_s: float, timeout_s: float, forwarder: str | None
) -> bool:
    from innet.ndn import Client
    from innet.ndn.ping import ping

    rtts_s: list[float] = []
    sent = 0
    async with Client(forwarder) as client:
        try:
            async for result in ping(
                client, prefix, count=count, interval_s=interval_s, timeout_s=timeout_s
            ):
                sent += 1
                if result.rtt_s is None:
                    why = result.refusal or f"no answer within {timeout_s:g} s"
                    say(f"{prefix} seq={result.number}: {why}")
                    continue
                rtts_s.append(result.rtt_s)
                say(f"{prefix} seq={result.number} time={result.rtt_s * 1e3:.3f} ms")
        finally:
            _summarize(prefix, sent, rtts_s)
    return len(rtts_s) == sent


def _summarize(prefix: str, sent: int, rtts_s: list[float]) -> None:
    if not sent:
        return
    lost = 100 * (sent - len(rtts_s)) / sent
    say(f"--- {prefix}: {sent} sent, {len(rtts_s)} answered, {lost:.0f} % lost")
    if rtts_s:
        mean_s = sum(rtts_s) / len(rtts_s)
        say(
            f"rtt min/mean/max = {min(rtts_s) * 1e3:.3f}/{mean_s * 1e3:.3f}/"
            f"{max(rtts_s) * 1e3:.3f} ms"
        )
