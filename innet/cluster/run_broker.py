"""The telemetry of a run, for programs of its user: its broker, its topics, commands to nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiomqtt
from aiomqtt import MqttError
from pydantic import ValidationError

from innet.backoff import Backoff
from innet.cluster.emulation.runs import RunRecord
from innet.errors import TelemetryError
from innet.security.keys import OPERATOR_KEY_NAME, OperatorKey
from innet.telemetry.broker_socket import BROKER_SOCKET_NAME, client_of, client_through
from innet.telemetry.broker_url import BrokerUrl
from innet.telemetry.commands import Command, signed
from innet.telemetry.feed import RunFeed
from innet.telemetry.messages import CommandReply, RunEvent
from innet.telemetry.topics import all_of_run, node_topics
from innet.topology import load_topology


@dataclass(frozen=True, slots=True)
class RunBroker:
    """A broker, reached through the run's own socket or, from elsewhere, over the network."""

    url: BrokerUrl | None
    broker_socket: Path | None = None

    def client(self) -> aiomqtt.Client:
        """A client, not connected yet; call it inside an event loop."""
        if self.broker_socket is not None:
            return client_through(self.broker_socket, self.url)
        if self.url is None:
            raise TelemetryError("no broker: give the URL of one, or a run of this machine")
        return client_of(self.url)


def broker_of(record: RunRecord) -> RunBroker:
    """The broker that a run of this machine publishes to."""
    if record.machine is not None:  # the launcher's broker, through the agent
        return RunBroker(None, record.run_dir / BROKER_SOCKET_NAME)
    if record.broker is None:
        record.require_up()  # it may not have one yet
        raise TelemetryError(
            f"{record.run_id} runs without telemetry (--broker none). `innet status "
            f"{record.run_id} --watch` shows it all the same."
        )
    settings = record.settings()
    url = BrokerUrl.of_setting(settings.telemetry.broker)
    return RunBroker(url, record.run_dir / BROKER_SOCKET_NAME)


_QOS = 1

OnEvent = Callable[[RunEvent], None]
OnLost = Callable[[str], bool]


async def follow(
    broker: RunBroker,
    run_id: str,
    feed: RunFeed,
    on_event: OnEvent,
    on_lost: OnLost,
    topics: Sequence[str] | None = None,
) -> None:
    """Feed ``feed`` with what a run publishes, until the run ends.

    Args:
        feed: the state of the run so far.
        on_lost: called with the reason when the broker is lost; returns whether to retry.
        topics: filters of topics; by default, everything that the run publishes.
    """
    wanted = [(topic, _QOS) for topic in topics or (all_of_run(run_id),)]
    backoff = Backoff(longest_s=2.0)
    while True:
        try:
            async with broker.client() as client:
                backoff.reset()
                await client.subscribe(wanted)
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


_REPLY_TIMEOUT_S = 10.0


async def give_command(record: RunRecord, node: str, command: Command) -> CommandReply:
    """Tell ``node`` of a run to carry out ``command``."""
    _require_running(record, node)
    key = OperatorKey.load(record.run_dir / OPERATOR_KEY_NAME)
    number, payload = signed(command, record.run_id, node, key)
    topics = node_topics(record.run_id, node)
    try:
        async with asyncio.timeout(_REPLY_TIMEOUT_S), broker_of(record).client() as client:
            await client.subscribe(topics.reply, 1)
            await client.publish(topics.command, payload, 1)
            async for message in client.messages:
                reply = _reply(message.payload)
                if reply is not None and reply.number == number:
                    return reply
    except TimeoutError:
        pass
    except (MqttError, OSError) as error:
        raise TelemetryError(
            f"the broker of {record.run_id} cannot be reached: {error}. Find its "
            f"address with `innet status {record.run_id}`"
        ) from error
    raise TelemetryError(
        f"{node} of {record.run_id} did not reply within {_REPLY_TIMEOUT_S:g} s. Check with "
        f"`innet status {record.run_id}` that it runs; a host is a node while a job runs on it."
    )


def _require_running(record: RunRecord, node: str) -> None:
    """Refuse at once a command that would time out."""
    nodes = load_topology(str(record.topology_path)).nodes
    running = [name for name in nodes if record.control_socket(name).exists()]
    if node in running:
        return
    what = "does not run now" if node in nodes else "is no node of its topology"
    raise TelemetryError(
        f"{node} of {record.run_id} receives no commands: it {what}. These nodes run: "
        f"{', '.join(running) or 'none'}; a host is a node while a job runs on it."
    )


def _reply(payload: object) -> CommandReply | None:
    try:
        return CommandReply.model_validate_json(payload) if isinstance(payload, bytes) else None
    except ValidationError:
        return None
