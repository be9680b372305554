"""Clients that hear each other's Interests, and nobody's time passes: a forwarder in memory."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from innet.errors import CommandRefused, InterestTimeout
from innet.names import as_name
from innet.ndn import DigestSigner, IntegrityValidator, Name, wire
from innet.ndn.production import Answers, Handler


class _Management:
    def __init__(self, medium: SharedMedium) -> None:
        self._medium = medium

    async def command(self, module: str, verb: str, parameters: Any) -> None:
        self._medium.commands.append((module, verb, str(parameters.name), str(parameters.strategy)))
        if self._medium.refuses:
            raise CommandRefused("the forwarder refused", 404)


class MediumClient:
    """Has of :class:`innet.ndn.Client` what a sync group needs."""

    def __init__(self, medium: SharedMedium) -> None:
        self.signer = DigestSigner()
        self.validator = IntegrityValidator()
        self.management = _Management(medium)
        self.handlers: dict[Name, Handler] = {}
        self._medium = medium

    async def register(self, prefix: Name | str, handler: Handler) -> None:
        self.handlers[as_name(prefix)] = handler

    async def unregister(self, prefix: Name | str) -> None:
        del self.handlers[as_name(prefix)]

    def send(self, packet: bytes) -> None:
        self._medium.sent.append(packet)
        for other in self._medium.clients:
            if other is not self:
                self._medium.start(other.serve(packet))

    async def express(self, name: Name, *, deadline_s: float, validator: Any) -> Any:
        self._medium.asked.append(name)
        for other in self._medium.clients:
            answer = await other.serve(wire.encode_interest(name))
            if isinstance(answer, bytes):
                data = wire.parse_data(answer)
                await validator.check(str(name), data)
                return data
        raise InterestTimeout(f"nobody has {name}")

    async def serve(self, packet: bytes) -> Any:
        interest = wire.parse_interest(packet)
        assert interest.parameters_digest_holds()
        for length in range(len(interest.name), -1, -1):
            if handler := self.handlers.get(interest.name.prefix(length)):
                answer = Answers().of(handler, interest, b"")
                return await answer if inspect.isawaitable(answer) else answer
        return None


class SharedMedium:
    """What all clients are connected to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.clients: list[MediumClient] = []
        self.sent: list[bytes] = []
        self.asked: list[Name] = []
        self.commands: list[tuple[str, str, str, str]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def connect(self) -> Any:
        client = MediumClient(self)
        self.clients.append(client)
        return client

    async def quiet(self) -> None:
        """Everybody has got what was sent."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
