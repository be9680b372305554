"""Gives a command to a node, and waits for its reply."""

from __future__ import annotations

import asyncio

from aiomqtt import MqttError
from pydantic import ValidationError

from innet.cluster.emulation.runs import RunRecord
from innet.cluster.launch.run_broker import broker_of
from innet.errors import TelemetryError
from innet.security.operator_key import OPERATOR_KEY_NAME, OperatorKey
from innet.telemetry.commands import Command, signed
from innet.telemetry.messages import CommandReply
from innet.telemetry.topics import node_topics
from innet.topology import load_topology

_REPLY_TIMEOUT_S = 10.0


async def give_command(record: RunRecord, node: str, command: Command) -> CommandReply:
    """Tell ``node`` of a run to carry out ``command``.

    Raises:
        TelemetryError: the run has no such node now, has no broker, it cannot be reached, or the
            node does not answer.
        SecurityError: this user did not launch the run.
    """
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
            f"the broker of {record.run_id} cannot be reached: {error}. `innet status "
            f"{record.run_id}` tells where it should be."
        ) from error
    raise TelemetryError(
        f"{node} of {record.run_id} did not reply within {_REPLY_TIMEOUT_S:g} s. Is it running? "
        f"`innet status {record.run_id}` tells; a host is a node while a job runs on it."
    )


def _require_running(record: RunRecord, node: str) -> None:
    """Whoever is not there would only be waited for."""
    nodes = load_topology(str(record.topology_path)).nodes
    running = [name for name in nodes if record.control_socket(name).exists()]
    if node in running:
        return
    what = "does not run now" if node in nodes else "is no node of its topology"
    raise TelemetryError(
        f"{node} cannot be told anything in {record.run_id}: it {what}. These run: "
        f"{', '.join(running) or 'none'}; a host is a node while a job runs on it."
    )


def _reply(payload: object) -> CommandReply | None:
    try:
        return CommandReply.model_validate_json(payload) if isinstance(payload, bytes) else None
    except ValidationError:
        return None
