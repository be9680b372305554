"""Which members are a block's homes, now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from innet.kv.placement import Placement
from innet.kv.pool.network import BlockNetwork, Outcome

_ENOUGH_S = 1.0
"""A member that does not answer for so long is not there."""


@dataclass
class Asked:
    """What asking a member has come to so far."""

    outcome: Outcome = Outcome.LATE


class Members:
    """The members that a block's homes are chosen from; who has failed is left out for a while.

    Whoever comes, goes or is left out moves the blocks alone whose home it is.
    """

    def __init__(self, network: BlockNetwork, replicas: int, leave_out_s: float) -> None:
        """
        Args:
            network: knows who offers memory.
            replicas: homes of a block, if there are as many members.
            leave_out_s: for how long one that has failed is left out.
        """
        self._network = network
        self._replicas = replicas
        self._leave_out_s = leave_out_s
        self._out_until_s: dict[str, float] = {}
        self._weights: dict[str, int] = {}
        self._placement: Placement | None = None

    def homes(self, block_hash: bytes) -> tuple[str, ...]:
        """The homes of a block, the one to ask first before the others; there may be none."""
        weights = self._present()
        if weights != self._weights:
            self._weights = weights
            replicas = min(self._replicas, len(weights))
            self._placement = Placement(weights, replicas=replicas) if weights else None
        return () if self._placement is None else self._placement.homes(block_hash)

    def own_depth(self, depth: int) -> int:
        """A block's depth as one home sees it, which gets but every so many blocks of a prompt."""
        return depth * self._replicas // max(self._replicas, len(self._network.members()))

    @contextmanager
    def asking(self, member: str) -> Iterator[Asked]:
        """While ``member`` is asked for something: one that cannot be reached is left out then.

        So is one that is late, or was asked in vain until the asker gave up, unless it had so
        little time that this says nothing of it.
        """
        asked = Asked()
        start_s = self._now_s()
        try:
            yield asked
        finally:
            now_s = self._now_s()
            late = asked.outcome is Outcome.LATE and now_s - start_s >= _ENOUGH_S
            if late or asked.outcome is Outcome.UNREACHABLE:
                self._out_until_s[member] = now_s + self._leave_out_s
            elif asked.outcome is Outcome.HERE:
                self._out_until_s.pop(member, None)

    def left_out(self) -> tuple[str, ...]:
        """The members that are left out now."""
        now_s = self._now_s()
        self._out_until_s = {m: end_s for m, end_s in self._out_until_s.items() if end_s > now_s}
        return tuple(self._out_until_s)

    def _present(self) -> dict[str, int]:
        left_out = self.left_out()
        members = self._network.members()
        return {m: size for m, size in members.items() if size > 0 and m not in left_out}

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
