"""Which members are a block's homes, now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Self

from innet.kv.placement import Placement
from innet.kv.pool.network import BlockNetwork, Outcome

_ENOUGH_S = 1.0
"""A member that does not answer for so long is not there."""


class Asked:
    """A context in which a member is asked for something.

    Attributes:
        outcome: what that has come to so far.
    """

    __slots__ = ("_member", "_members", "_start_s", "outcome")

    def __init__(self, members: Members, member: str) -> None:
        """``members`` is told of the outcome at the context's end."""
        self._members = members
        self._member = member
        self.outcome = Outcome.LATE

    def __enter__(self) -> Self:
        self._start_s = asyncio.get_running_loop().time()
        return self

    def __exit__(self, *_: object) -> None:
        self._members.note(self._member, self.outcome, self._start_s)


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
        self._known: Mapping[str, int] = {}
        self._weights: dict[str, int] = {}
        self._placement: Placement | None = None

    def homes(self, block_hash: bytes) -> tuple[str, ...]:
        """The homes of a block, the one to ask first before the others; there may be none."""
        known = self._network.members()
        if known is not self._known or self._out_until_s:
            self._look_again(known)
        return () if self._placement is None else self._placement.homes(block_hash)

    def own_depth(self, depth: int) -> int:
        """A block's depth as one home sees it, which gets but every so many blocks of a prompt."""
        return depth * self._replicas // max(self._replicas, len(self._network.members()))

    def asking(self, member: str) -> Asked:
        """While ``member`` is asked for something: one that cannot be reached is left out then.

        So is one that is late, or was asked in vain until the asker gave up, unless it had so
        little time that this says nothing of it.
        """
        return Asked(self, member)

    def note(self, member: str, outcome: Outcome, start_s: float) -> None:
        """What has become of asking ``member``, from ``start_s`` until now."""
        if outcome is Outcome.HERE:
            self._out_until_s.pop(member, None)
            return
        now_s = self._now_s()
        late = outcome is Outcome.LATE and now_s - start_s >= _ENOUGH_S
        if late or outcome is Outcome.UNREACHABLE:
            self._out_until_s[member] = now_s + self._leave_out_s
            self._known = {}

    def left_out(self) -> tuple[str, ...]:
        """The members that are left out now."""
        now_s = self._now_s()
        self._out_until_s = {m: end_s for m, end_s in self._out_until_s.items() if end_s > now_s}
        return tuple(self._out_until_s)

    def _look_again(self, known: Mapping[str, int]) -> None:
        left_out = self.left_out()
        weights = {m: size for m, size in known.items() if size > 0 and m not in left_out}
        self._known = {} if left_out else known
        if weights != self._weights:
            self._weights = weights
            replicas = min(self._replicas, len(weights))
            self._placement = Placement(weights, replicas=replicas) if weights else None

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
