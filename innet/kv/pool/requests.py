"""Requests between members of a pool, as names, and their answers.

    /kv/<tenant>/request/<member>/<requester>/<nonce>/<verb>/<model-digest>/<layout>/<layers>/
        <hash>/<…>

The requester fetches the object of that name from the member, which executes the request and
publishes the answer under the name, signed by the tenant's key. The verbs, and what follows the
block:

* ``keep/…/<depth>/<source>``: keep the block, fetched from the node ``source``; it is ``depth``
  blocks deep in its prompt. Up to fifteen more blocks of the same model and layout may follow,
  each as ``/<layers>/<hash>/<depth>``;
* ``note/…/<depth>/<source>``: the same, but only when a member requests the block;
* ``offer/…/<depth>/<source>/<wait_ms>``: keep it if the member's next victim has waited longer for
  a use than that, otherwise note it;
* ``pin/…/<lease_ms>``: protect it from eviction for that long;
* ``unpin/…``: end that; ``drop/…``: drop the block.

``/kv/<tenant>/request/<member>/<requester>/<nonce>/summary/<version>`` has no block: the answer
says which blocks the member has in memory, or what has changed since the version that the requester
has (:mod:`innet.kv.pool.summary`).

A nonce is never used twice, so that no cache on the path has an earlier answer. It proves that a
member sent the request (:mod:`innet.kv.request_proofs`), which a home's network has verified.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey, shown
from innet.kv.pool.network import Contents
from innet.node.messages import KV_PREFIX, tenant_prefix
from innet.topology.names import NAME_PATTERN

REQUEST_COMPONENT: Final = "request"
"""Stands where a block's name has the model's digest; no digest has this value."""

MAX_NUMBER: Final = 10**9 - 1
"""The largest depth, and the longest lease in ms (eleven days)."""

MAX_KEPT_AT_ONCE: Final = 16
"""Blocks that one request asks to keep."""

_SUMMARY: Final = "summary"
_NODE = re.compile(NAME_PATTERN)
_NONCE = re.compile(r"[0-9a-f]{1,128}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_HEAD_COMPONENTS = 8
_BLOCK_COMPONENTS = 4
_MORE_COMPONENTS = 3


@dataclass(frozen=True, slots=True)
class Keep:
    """Fetch blocks from ``source`` and keep them.

    Attributes:
        blocks: of one tenant, model and layout, with their depths in their prompts.
        source: of all blocks.
    """

    blocks: tuple[tuple[BlockKey, int], ...]
    source: str


@dataclass(frozen=True, slots=True)
class Note:
    """The node ``source`` has a block, which is ``depth`` blocks deep in its prompt."""

    block: BlockKey
    depth: int
    source: str


@dataclass(frozen=True, slots=True)
class Offer:
    """Keep the block of ``source`` if this evicts one that has waited longer than ``wait_ms`` for a
    use, as the source's own next victim has; otherwise it is a :class:`Note`."""

    block: BlockKey
    depth: int
    source: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Pin:
    """Protect a block from eviction for ``lease_ms``."""

    block: BlockKey
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Unpin:
    """End the requester's lease of a block."""

    block: BlockKey


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop a block."""

    block: BlockKey


Action: TypeAlias = Keep | Note | Offer | Pin | Unpin | Drop


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """A request to a member.

    Attributes:
        member: the node that executes it.
        requester: the node that sends it.
        nonce: hexadecimal, different for each request.
        action: with the block, and so with the tenant.

    Example:
        >>> from innet.kv.names import BlockFamily
        >>> block = BlockKey(BlockFamily("a1b2", "00ff", "bf16", 0, 32), bytes(32))
        >>> PoolRequest("h1", "h0", "7", Unpin(block)).name[:61]
        '/kv/a1b2/request/h1/h0/7/unpin/00ff/bf16/0-31/000000000000000'
    """

    member: str
    requester: str
    nonce: str
    action: Action

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: a part cannot be a name component.
        """
        source = (self.action.source,) if isinstance(self.action, Keep | Note | Offer) else ()
        for node in (self.member, self.requester, *source):
            if not _NODE.fullmatch(node):
                raise KVError(f"invalid node {shown(node)} in a request, expected a node's name")
        if not _NONCE.fullmatch(self.nonce):
            raise KVError(f"invalid nonce {shown(self.nonce)} of a request, expected hexadecimal")
        if isinstance(self.action, Keep):
            _check_blocks(self.action.blocks)
        for part in _parts_of(self.action)[2]:
            if isinstance(part, int) and not 0 <= part <= MAX_NUMBER:
                raise KVError(f"invalid number {part} in a request, expected 0 to {MAX_NUMBER}")

    @property
    def block(self) -> BlockKey:
        """The block, or the first one."""
        return _parts_of(self.action)[1]

    @property
    def name(self) -> str:
        """The name of the member's answer."""
        prefix = requests_prefix(self.block.family.tenant, self.member)
        return f"{prefix}/{self.requester}/{self.nonce}/{name_of_action(self.action)}"

    @classmethod
    def parse(cls, name: str) -> PoolRequest:
        """The request of that name.

        Raises:
            KVError: it is not the name of a request.
        """
        parts = name.split("/")
        if len(parts) < _HEAD_COMPONENTS or parts[:2] != ["", KV_PREFIX[1:]]:
            raise KVError(f"{shown(name)} is not the name of a request")
        _, _, tenant, what, member, requester, nonce, verb, *rest = parts
        if what != REQUEST_COMPONENT:
            raise KVError(f"{shown(name)} is not the name of a request")
        block = BlockKey.of_components(tenant, rest[:_BLOCK_COMPONENTS])
        return cls(member, requester, nonce, _action(verb, block, rest[_BLOCK_COMPONENTS:]))


def name_of_action(action: Action) -> str:
    """The end of a request's name, from the verb on."""
    verb, block, arguments = _parts_of(action)
    family = block.family
    parts = (verb, family.model_digest, family.layout, family.layers, block.block_hash.hex())
    return "/".join((*parts, *map(str, arguments)))


def is_request(name: str) -> bool:
    """Whether a name below a tenant's prefix names a request rather than a block.

    >>> is_request("/kv/a1b2/request/h1/h0/7/unpin"), is_request("/kv/a1b2/00ff/bf16/0-31/00")
    (True, False)
    """
    return name.split("/")[3:4] == [REQUEST_COMPONENT]


def summary_action(version: int) -> str:
    """The end of the name of a request for a member's summary, by one that has a version of it (0:
    none)."""
    return f"{_SUMMARY}/{version}"


def summary_version(name: str) -> int | None:
    """The version that the requester of a summary has; ``None``: the request is another one.

    >>> summary_version(f"{requests_prefix('a1b2', 'h1')}/h0/7/{summary_action(5)}")
    5
    """
    match name.split("/")[_HEAD_COMPONENTS - 1 :]:
        case [verb, version] if verb == _SUMMARY and _NUMBER.fullmatch(version):
            return int(version)
    return None


def requests_prefix(tenant: str, member: str) -> str:
    """The prefix of all requests to a member."""
    return f"{tenant_prefix(tenant)}/{REQUEST_COMPONENT}/{member}"


def _check_blocks(blocks: Sequence[tuple[BlockKey, int]]) -> None:
    if not 1 <= len(blocks) <= MAX_KEPT_AT_ONCE:
        raise KVError(f"one request is for 1 to {MAX_KEPT_AT_ONCE} blocks, not {len(blocks)}")
    if len({block.family.kind for block, _ in blocks}) > 1:
        raise KVError("the blocks of one request are of one tenant, model and layout")


def _parts_of(action: Action) -> tuple[str, BlockKey, tuple[str | int, ...]]:
    """The verb, the first block, and what follows it in the name."""
    match action:
        case Keep(blocks, source):
            (block, depth), *more = blocks
            rest: list[str | int] = [depth, source]
            for other, its_depth in more:
                rest += (other.family.layers, other.block_hash.hex(), its_depth)
            return "keep", block, tuple(rest)
        case Note(block, depth, source):
            return "note", block, (depth, source)
        case Offer(block, depth, source, wait_ms):
            return "offer", block, (depth, source, wait_ms)
        case Pin(block, lease_ms):
            return "pin", block, (lease_ms,)
        case Unpin(block):
            return "unpin", block, ()
        case Drop(block):
            return "drop", block, ()


def _action(verb: str, block: BlockKey, arguments: Sequence[str]) -> Action:
    match verb, arguments:
        case "keep", [depth, source, *more] if _NUMBER.fullmatch(depth):
            return Keep(((block, int(depth)), *_more(block.family, more)), source)
        case "note", [depth, source] if _NUMBER.fullmatch(depth):
            return Note(block, int(depth), source)
        case "offer", [depth, source, wait_ms] if all(map(_NUMBER.fullmatch, (depth, wait_ms))):
            return Offer(block, int(depth), source, int(wait_ms))
        case "pin", [lease_ms] if _NUMBER.fullmatch(lease_ms):
            return Pin(block, int(lease_ms))
        case "unpin", []:
            return Unpin(block)
        case "drop", []:
            return Drop(block)
    raise KVError(f"invalid request {shown('/'.join((verb, *arguments)))}")


def _more(family: BlockFamily, parts: Sequence[str]) -> tuple[tuple[BlockKey, int], ...]:
    found = []
    for start in range(0, min(len(parts), _MORE_COMPONENTS * MAX_KEPT_AT_ONCE), _MORE_COMPONENTS):
        layers, block_hash, depth, *_ = (*parts[start : start + _MORE_COMPONENTS], "", "")
        if not _NUMBER.fullmatch(depth):
            raise KVError(f"invalid block in a request: {shown('/'.join(parts[start:]))}")
        components = (family.model_digest, family.layout, layers, block_hash)
        found.append((BlockKey.of_components(family.tenant, components), int(depth)))
    return tuple(found)


@dataclass(frozen=True)
class Answer:
    """The result of a request.

    Attributes:
        done: all of it was done.
        cause: why not, in a few words.
        causes: for a request for several blocks that was not done for all of them: for each block
            why not, or ``None``.

    Example:
        >>> Answer.decode(Answer(False, "no room").encoded())
        Answer(done=False, cause='no room', causes=())
    """

    done: bool
    cause: str = ""
    causes: tuple[str | None, ...] = ()

    @classmethod
    def of_blocks(cls, causes: Sequence[str | None]) -> Answer:
        """The answer to a request for several blocks."""
        cause = next((cause for cause in causes if cause is not None), None)
        return DONE if cause is None else cls(False, cause, tuple(causes))

    def refusal_of(self, index: int) -> str | None:
        """Why the block at that place of the request was refused; ``None``: it was not."""
        if self.done:
            return None
        return self.causes[index] if index < len(self.causes) else self.cause

    def refusals(self) -> list[str]:
        """Why each refused block was refused."""
        return [cause for cause in self.causes if cause is not None] or [self.cause]

    def encoded(self) -> Contents:
        """A JSON object: ``{"done": false, "cause": "no room", "causes": []}``."""
        return _encoded(self)

    @classmethod
    def decode(cls, contents: Contents) -> Answer:
        """The answer with these contents; an unreadable one counts as a refusal."""
        if contents.tobytes() == _DONE_BYTES:
            return DONE
        try:
            found = json.loads(contents.tobytes())
            causes = [cause if cause is None else str(cause) for cause in found["causes"]]
            return cls(found["done"] is True, str(found["cause"]), tuple(causes))
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(False, "unreadable")


@lru_cache
def _encoded(answer: Answer) -> Contents:
    text = json.dumps(asdict(answer))
    return np.frombuffer(text.encode(), np.uint8)


DONE: Final = Answer(True)
NOTED: Final = Answer(True, "noted")
"""The answer to an :class:`Offer` that the member does not take."""
_DONE_BYTES: Final = DONE.encoded().tobytes()
