"""Asks other members to do something."""

from __future__ import annotations

from innet.kv.pool.answers import Answer
from innet.kv.pool.members import Members
from innet.kv.pool.network import BlockNetwork
from innet.kv.pool.statistics import OUTCOME_CAUSES, Cause
from innet.kv.requests import Action, Request


class Asker:
    """Sends requests, and waits for their answers."""

    def __init__(self, network: BlockNetwork, members: Members) -> None:
        self._network = network
        self._members = members

    async def ask(self, member: str, action: Action, timeout_s: float) -> Cause | None:
        """Let ``member`` do something; ``None`` when it is done, and else why it is not."""
        answer = await self.answer_of(member, action, timeout_s)
        if isinstance(answer, Cause):
            return answer
        return None if answer.done else Cause.REFUSED

    async def answer_of(self, member: str, action: Action, timeout_s: float) -> Answer | Cause:
        """What ``member`` says to being asked to do something, or why it says nothing."""
        name = Request(member, self._network.node, self._network.nonce(), action).name
        with self._members.asking(member) as asked:
            asked.outcome, block = await self._network.fetch(name, member, timeout_s)
        return OUTCOME_CAUSES[asked.outcome] if block is None else Answer.decode(block.contents)
