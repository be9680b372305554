"""Follows a run's topics, also when the broker goes away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiomqtt import MqttError

from innet.backoff import Backoff
from innet.cluster.launch.run_broker import RunBroker
from innet.telemetry.feed import RunFeed
from innet.telemetry.messages import Event
from innet.telemetry.topics import all_of_run

OnEvent = Callable[[Event], None]
OnLost = Callable[[str], bool]


async def follow(
    broker: RunBroker, run_id: str, feed: RunFeed, on_event: OnEvent, on_lost: OnLost
) -> None:
    """Feed ``feed`` with all that a run publishes, until the run ends.

    Args:
        broker: of the run.
        run_id: the run.
        feed: what is told of the run so far.
        on_event: told each event.
        on_lost: told why the broker was lost; whether to go on trying.
    """
    backoff = Backoff(longest_s=2.0)
    while True:
        try:
            async with broker.client() as client:
                backoff.reset()
                await client.subscribe(all_of_run(run_id), 1)
                async for message in client.messages:
                    payload = message.payload
                    event = feed.take(
                        str(message.topic), payload if isinstance(payload, bytes) else b""
                    )
                    if event is not None:
                        on_event(event)
                    if feed.has_ended:
                        return
        except (MqttError, OSError) as error:
            if not on_lost(str(error)):
                return
        await asyncio.sleep(backoff.next_s())
