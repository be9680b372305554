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
        name = Request(member, self._network.node, self._network.nonce(), action).name
        with self._members.asking(member) as asked:
            asked.outcome, block = await self._network.fetch(name, member, timeout_s)
        if block is None:
            return OUTCOME_CAUSES[asked.outcome]
        return None if Answer.decode(block.contents).done else Cause.REFUSED
