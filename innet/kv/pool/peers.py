"""The members of a pool: which are a block's homes, and requests to them."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from innet.errors import KVError
from innet.kv.names import BlockKey
from innet.kv.pool.network import BlockNetwork, Cause, Sealed
from innet.kv.pool.requests import DONE, Action, Answer, Keep, Offer, name_of_action
from innet.kv.pool.waiting import GivenUp, gather, now_s
from innet.kv.pool.window import BLOCKS_OF_REQUEST

Result = TypeVar("Result")

_DRAW_BYTES: Final = 8
_SILENCE_S: Final = 1.0
"""A member that does not answer for this long has failed."""
_PAUSE_S: Final = 0.01
"""Polling interval of the members: the network does not report changes."""
_FIRST_PAUSE_SHARE: Final = 1 / 8
"""The shortest pause of a :class:`CircuitBreaker`, as a share of the longest."""


class CircuitBreaker:
    """Excludes a failing peer from requests, for twice as long after each failure in a row.

    The first silence excludes no member, because a busy machine may have paused. A failed request
    that was sent before the last failure does not count as another one.

    Attributes:
        open_until_s: when the peer may be asked again.
    """

    def __init__(self, longest_s: float) -> None:
        """``longest_s``: limit of a pause."""
        self._longest_s = longest_s
        self._pause_s = 0.0
        self._failed_s: float | None = None
        self.open_until_s = -math.inf

    @property
    def is_at_limit(self) -> bool:
        """Whether the last pause had the longest duration."""
        return self._pause_s >= self._longest_s

    def on_failure(self, began_s: float, now_s: float, *, is_silence: bool) -> None:
        """A request that was sent at ``began_s`` failed: without an answer, or with a refusal."""
        if self._failed_s is not None and began_s < self._failed_s:
            return
        is_first, self._failed_s = self._failed_s is None, now_s
        shortest_s = _FIRST_PAUSE_SHARE * self._longest_s
        self._pause_s = min(max(2 * self._pause_s, shortest_s), self._longest_s)
        if not (is_first and is_silence):
            self.open_until_s = now_s + self._pause_s


class Placement:
    """The homes of blocks: consistent hashing, weighted by capacity, with replicas.

    Rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
    1998) with weights as in Schindelhauer and Schomaker, "Weighted distributed hash tables" (SPAA
    2005): every node draws a number from the block's hash, and the highest are the homes. The draws
    are independent, so a node that joins or leaves moves only blocks of its own, whatever the
    weights; points on a circle would need many of them to be as even.

    Example:
        >>> placement = Placement({"h0": 1, "h1": 1, "h2": 2}, replicas=2)
        >>> len(set(placement.homes(bytes(32))))
        2

    Attributes:
        replicas: homes of a block.
    """

    def __init__(self, weights: Mapping[str, float], *, replicas: int = 1) -> None:
        """
        Args:
            weights: of the nodes that offer memory, in any unit: each is home to its share of the
                blocks.
            replicas: homes of a block, on as many different nodes.

        Raises:
            KVError: a weight is not above 0, or there are fewer nodes than replicas.
        """
        for node, weight in weights.items():
            if not 0 < weight < math.inf:
                raise KVError(f"the weight of {node} is {weight}; it must be above 0")
        if not 1 <= replicas <= len(weights):
            raise KVError(
                f"{replicas} replicas of a block need as many nodes with memory, and at least one; "
                f"there are {len(weights)}"
            )
        self.replicas = replicas
        self._nodes = [(node, node.encode(), weight) for node, weight in weights.items()]

    def homes(self, block_hash: bytes) -> tuple[str, ...]:
        """The nodes that keep the block, in the order in which they are asked."""
        if len(self._nodes) == 1:
            return (self._nodes[0][0],)
        scores = ((_score(block_hash, text, weight), node) for node, text, weight in self._nodes)
        return tuple(node for _, node in heapq.nlargest(self.replicas, scores))


def _score(block_hash: bytes, node: bytes, weight: float) -> float:
    digest = hashlib.blake2b(block_hash + node, digest_size=_DRAW_BYTES).digest()
    drawn = (int.from_bytes(digest, "big") + 0.5) / (1 << 8 * _DRAW_BYTES)  # within (0, 1)
    return weight / -math.log(drawn) if drawn < 1 else math.inf


def placement_among(members: Mapping[str, int], replicas: int) -> Placement | None:
    """The homes among ``members``, by the bytes that they offer; ``None``: none offers any.

    Fewer members than ``replicas`` are all homes.
    """
    weights = {member: size for member, size in members.items() if size > 0}
    return Placement(weights, replicas=min(replicas, len(weights))) if weights else None


class Members:
    """The members that a block's homes are chosen from; a failing one is left out for a while.

    A member that joins, leaves or is left out moves only the blocks that it is home to.

    Attributes:
        replicas: homes of a block, if there are as many members.
    """

    def __init__(self, network: BlockNetwork, replicas: int, leave_out_s: float) -> None:
        """
        Args:
            network: knows who offers memory.
            replicas: homes of a block, if there are as many members.
            leave_out_s: how long a member is left out at most.
        """
        self._network = network
        self.replicas = replicas
        self._leave_out_s = leave_out_s
        self._failing: dict[str, CircuitBreaker] = {}
        self._known: Mapping[str, int] = {}
        self._weights: dict[str, int] = {}
        self._placement: Placement | None = None

    def count_replicas(self, replicas: int) -> None:
        """Look for blocks at so many homes from now on."""
        if replicas != self.replicas:
            self.replicas, self._known, self._weights, self._placement = replicas, {}, {}, None

    def homes(self, block_hash: bytes) -> tuple[str, ...]:
        """The homes of a block, in the order in which they are asked; there may be none."""
        placement = self._present_placement()
        return () if placement is None else placement.homes(block_hash)

    def homes_of(self, keys: Sequence[BlockKey]) -> list[tuple[str, ...]]:
        """:meth:`homes` of several blocks."""
        placement = self._present_placement()
        if placement is None:
            return [()] * len(keys)
        return [placement.homes(key.block_hash) for key in keys]

    def other_homes(self, key: BlockKey) -> list[str]:
        """The homes of a block except this node."""
        return [home for home in self.homes(key.block_hash) if home != self._network.node]

    def answers(self, member: str) -> bool:
        """Whether a node is a member that is not left out."""
        failing = self._failing.get(member)
        is_left_out = failing is not None and failing.open_until_s > now_s()
        return member in self._network.members() and not is_left_out

    def own_depth(self, depth: int) -> int:
        """A block's depth as one home counts it, which keeps every n-th block of a prompt."""
        return depth * self.replicas // max(self.replicas, len(self._network.members()))

    def prompt_depth(self, own_depth: int) -> int:
        """About the depth in its prompt of a block with that :meth:`own_depth`."""
        return own_depth * max(1, len(self._network.members()) // self.replicas)

    def record_result(self, member: str, failure: Cause | None, began_s: float) -> None:
        """Record how a request to ``member`` ended that was sent at ``began_s``.

        A member that is unreachable, or silent for at least a second, has failed. One that fails
        repeatedly is left out, each time for longer.
        """
        if failure is None:
            if self._failing.pop(member, None) is not None:
                self._known = {}
            return
        ended_s = now_s()
        late = failure is Cause.LATE and ended_s - began_s >= _SILENCE_S
        if late or failure is Cause.UNREACHABLE:
            failing = self._failing.setdefault(member, CircuitBreaker(self._leave_out_s))
            failing.on_failure(began_s, ended_s, is_silence=late)

    def _present_placement(self) -> Placement | None:
        known = self._network.members()
        if known is not self._known or self._failing:
            self._update(known)
        return self._placement

    def _update(self, known: Mapping[str, int]) -> None:
        self._failing = {member: each for member, each in self._failing.items() if member in known}
        at_s = now_s()
        left_out = {member for member, each in self._failing.items() if each.open_until_s > at_s}
        weights = {m: size for m, size in known.items() if m not in left_out}
        self._known = known
        if weights != self._weights:
            self._weights = weights
            self._placement = placement_among(weights, self.replicas)


async def await_members(
    network: BlockNetwork, enough: Callable[[Mapping[str, int]], bool], timeout_s: float
) -> bool:
    """Wait until the members, with the bytes they offer, are ``enough``; whether they are.

    Blocks go to other homes, and are looked for elsewhere, while members are missing.
    """
    end_s = now_s() + timeout_s
    while not enough(network.members()):
        if now_s() >= end_s:
            return False
        await asyncio.sleep(_PAUSE_S)
    return True


DeepBlock: TypeAlias = tuple[BlockKey, int]
"""A block and its depth in its prompt."""

_Kind: TypeAlias = tuple[str, str, tuple[str, str, str]]
"""Member, source, and what all blocks of one request share."""


class _Batch:
    """Blocks that one request asks a member to keep; the first caller sends it.

    Attributes:
        blocks: with their depths.
        others: the other callers, which wait.
    """

    def __init__(self, blocks: Sequence[DeepBlock]) -> None:
        self.blocks = list(blocks)
        self.others: list[asyncio.Future[Answer | Cause | GivenUp]] = []

    async def join(self, blocks: Sequence[DeepBlock]) -> list[Cause | None] | GivenUp:
        """Add blocks and wait for the answer; for each ``None`` when it is kept."""
        first = len(self.blocks)
        self.blocks += blocks
        self.others.append(asyncio.get_running_loop().create_future())
        answer = await self.others[-1]
        return answer if isinstance(answer, GivenUp) else _refusals(answer, first, len(blocks))

    def end(self, answer: Answer | Cause | GivenUp) -> None:
        """Pass the answer to all waiting callers."""
        for other in self.others:
            if not other.done():
                other.set_result(answer)


class PeerClient:
    """Fetches from other members, and sends them requests.

    Requests to keep blocks that start in one turn of the event loop at one member are sent as one,
    with one signed answer, so puts that begin together share it. No request waits longer than such
    a turn. If the caller that sends it is cancelled, the other callers start again.
    """

    def __init__(self, network: BlockNetwork, members: Members, timeout_s: float) -> None:
        """
        Args:
            network: of this node.
            members: of the pool.
            timeout_s: of a request.
        """
        self._network = network
        self._members = members
        self._timeout_s = timeout_s
        self._open: dict[_Kind, _Batch] = {}

    async def fetch(
        self, names: Sequence[str], member: str, timeout_s: float
    ) -> list[Sealed | Cause]:
        """Blocks from ``member``, or why they did not arrive."""
        failure: Cause | None = Cause.LATE
        began_s = now_s()
        try:
            fetched = await self._network.fetch_together(names, member, timeout_s)
            causes = [end for end in fetched if isinstance(end, Cause)]
            failure = causes[0] if len(causes) == len(names) else None
            return fetched
        finally:
            self._members.record_result(member, failure, began_s)

    def probe(self, name: str, member: str, timeout_s: float) -> Awaitable[Cause | None]:
        """Why ``member`` does not have a block; ``None`` if it has."""
        return self._recorded(member, self._network.probe(name, member, timeout_s))

    async def _recorded(self, member: str, work: Awaitable[Result]) -> Result:
        """The result of ``work``, which :class:`Members` record for ``member``."""
        failure: Cause | None = Cause.LATE
        began_s = now_s()
        try:
            result = await work
            failure = result if isinstance(result, Cause) else None
            return result
        finally:
            self._members.record_result(member, failure, began_s)

    async def request(self, member: str, action: Action) -> Cause | None:
        """Send a request; ``None`` if it was done, otherwise why not."""
        return _refusals(await self._answer(member, action), 0, 1)[0]

    async def offer(self, home: str, offer: Offer) -> bool | Cause:
        """Send an offer: whether ``home`` wants the block; false: it has noted it."""
        answer = await self._answer(home, offer)
        if isinstance(answer, Cause):
            return answer
        return answer == DONE if answer.done else Cause.REFUSED

    async def request_homes(self, key: BlockKey, action: Action) -> list[Cause | None]:
        """Send a request to a block's other homes; :meth:`request` for each."""
        homes = self._members.other_homes(key)
        return await gather([self.request(home, action) for home in homes])

    async def keep(
        self,
        member: str,
        blocks: Sequence[DeepBlock],
        source: str,
        *,
        together: int = BLOCKS_OF_REQUEST,
    ) -> list[Cause | None]:
        """Let ``member`` keep blocks, fetched from ``source``; for each block ``None`` if it has
        the block, otherwise why not.

        Args:
            member: a home.
            blocks: of one tenant, model and layout, as many as one request may have.
            source: a member that has them.
            together: blocks of one request.
        """
        most = min(together, self._network.most_kept_at_once)
        if len(blocks) >= most:
            whole = await self._answer(member, Keep(tuple(blocks), source))
            return _refusals(whole, 0, len(blocks))
        kind = (member, source, blocks[0][0].family.kind)
        while True:
            batch = self._open.get(kind)
            if batch is None or len(batch.blocks) + len(blocks) > most:
                break
            ends = await batch.join(blocks)
            if not isinstance(ends, GivenUp):
                return ends
        batch = self._open[kind] = _Batch(blocks)
        answer: Answer | Cause | GivenUp = GivenUp.GIVEN_UP
        try:
            try:
                await asyncio.sleep(0)  # others join for the rest of this turn of the event loop
            finally:
                if self._open.get(kind) is batch:
                    del self._open[kind]
            answer = await self._answer(member, Keep(tuple(batch.blocks), source))
            return _refusals(answer, 0, len(blocks))
        finally:
            batch.end(answer)

    async def _answer(self, member: str, action: Action) -> Answer | Cause:
        attached: list[str] = []
        if isinstance(action, Keep) and action.source == self._network.node:
            attached = [block.name for block, _ in action.blocks]
        sent = self._network.request(member, name_of_action(action), self._timeout_s, attached)
        answer = await self._recorded(member, sent)
        return answer if isinstance(answer, Cause) else Answer.decode(answer.contents)


def _refusals(answer: Answer | Cause, first: int, count: int) -> list[Cause | None]:
    """The causes why ``count`` blocks of a request are not kept; ``None`` for a kept one."""
    if isinstance(answer, Cause):
        return [answer] * count
    if answer.done:
        return [None] * count
    places = range(first, first + count)
    return [None if answer.refusal_of(place) is None else Cause.REFUSED for place in places]
