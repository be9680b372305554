"""A client whose Interests go straight to its own producers: no sockets, and loss at will."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

from innet.errors import InterestRefused, InterestTimeout
from innet.ndn import Client, Name
from innet.ndn.client import InterestReply
from innet.ndn.production import Handler
from innet.ndn.wire import parse_data, parse_interest, parse_lp_packet


class DirectClient(Client):
    """Answers itself.

    Args:
        loses: decides by an Interest's name whether it, or its answer, is lost.
    """

    def __init__(self, loses: Callable[[Name], bool] = lambda name: False) -> None:
        super().__init__("unix:///nowhere")
        self.loses = loses
        self.asked: list[Name] = []
        self.forged: dict[Name, bytes] = {}
        """Packets that come in place of the right ones, by the Interest's name."""
        self.forged_first: dict[Name, list[bytes]] = {}
        """The same, each once."""

    async def exchange(self, packet: bytes) -> InterestReply:
        interest = parse_interest(packet)
        self.asked.append(interest.name)
        if self.forged_first.get(interest.name):
            return InterestReply(
                parse_data(self.forged_first[interest.name].pop(0)), congested=False
            )
        if interest.name in self.forged:
            return InterestReply(parse_data(self.forged[interest.name]), congested=False)
        handler = self._producers.handler_of(interest.name)
        answer = None if handler is None else self._answers.of(handler, interest, b"")
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None or self.loses(interest.name):
            # Others have their turn: who asks again at once would be alone with itself.
            await asyncio.sleep(0)
            raise InterestTimeout(f"{interest.name} was lost")
        reason = parse_lp_packet(answer).nack_reason
        if reason is not None:
            raise InterestRefused(f"{interest.name} was refused", reason)
        return InterestReply(parse_data(answer), congested=False)

    async def register(self, prefix: Name | str, handler: Handler, *, cost: int = 0) -> None:
        self.produce(prefix, handler)
