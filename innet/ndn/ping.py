"""Round trips to a prefix, as ndn-tools' ndnping and ndnpingserver measure and answer them.

An Interest is ``<prefix>/ping/<number>`` for fresh Data, its number counted up from a random one;
the answer has no Content.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from innet.errors import InterestRefused, InterestTimeout
from innet.names import Name, with_component
from innet.ndn import wire
from innet.ndn.production import Answer
from innet.ndn.wire import ReceivedInterest

if TYPE_CHECKING:
    from innet.ndn.client import Client

_KEYWORD = b"ping"
_ANSWER_FRESHNESS_S = 1.0


@dataclass(frozen=True)
class PingResult:
    """The outcome of one Interest.

    Attributes:
        number: in its name.
        rtt_s: time until the answer arrived; ``None`` if none did.
        refusal: why a forwarder refused it.
    """

    number: int
    rtt_s: float | None = None
    refusal: str | None = None


def ping_prefix(prefix: Name | str) -> Name:
    """The prefix of the names that a ping server of ``prefix`` answers."""
    return with_component(prefix, _KEYWORD)


async def ping(
    client: Client,
    prefix: Name | str,
    *,
    count: int | None = None,
    interval_s: float = 1.0,
    timeout_s: float = 4.0,
) -> AsyncIterator[PingResult]:
    """Send ``count`` pings (without limit by default), at least ``interval_s`` apart."""
    clock = asyncio.get_running_loop().time
    below = ping_prefix(prefix)
    number = first = secrets.randbits(32)
    while count is None or number - first < count:
        started_s = clock()
        packet = wire.encode_interest(
            with_component(below, str(number).encode()),
            must_be_fresh=True,
            lifetime_s=timeout_s,
        )
        try:
            await client.exchange(packet)
            yield PingResult(number, rtt_s=clock() - started_s)
        except InterestTimeout:
            yield PingResult(number)
        except InterestRefused as refused:
            yield PingResult(number, refusal=str(refused))
        number += 1
        if count is None or number - first < count:
            await asyncio.sleep(max(0.0, started_s + interval_s - clock()))


def answer_ping(client: Client, interest: ReceivedInterest) -> Answer:
    """The answer of a ping server."""
    return wire.encode_data(interest.name, freshness_s=_ANSWER_FRESHNESS_S, signer=client.signer)
