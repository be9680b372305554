"""What members of a pool ask of each other, as names.

    /kv/<tenant>/request/<member>/<asker>/<nonce>/<verb>/<model-digest>/<layout>/<layers>/<hash>/<…>

The object of that name is the member's answer: the asker fetches it from the member, which does
what the name says and publishes what came of it, signed by the tenant's key. The verbs, and what
follows the block:

* ``keep/…/<depth>/<source>``: have the block, from the node ``source``; it is ``depth`` blocks deep
  in its prompt. Up to three blocks more of the same model and layout may follow, each as
  ``/<layers>/<hash>/<depth>``;
* ``note/…/<depth>/<source>``: the same when somebody asks for it, and not before;
* ``pin/…/<lease_ms>``: keep it for so long, whatever else has to go;
* ``unpin/…``: that is over; ``drop/…``: have it no longer.

A nonce is never used twice, so that no cache on the way has an earlier answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from innet.errors import KVError
from innet.kv.names import BlockFamily, BlockKey, shown
from innet.node.control.protocol import KV_PREFIX, tenant_prefix
from innet.topology.names import NAME_PATTERN

REQUEST_COMPONENT: Final = "request"
"""Where a block's name has the model's digest; no digest is called so."""

MAX_NUMBER: Final = 10**9 - 1
"""The largest depth, and the longest lease in ms (eleven days)."""

MAX_KEPT_AT_ONCE: Final = 4
"""Blocks that one request asks to keep."""

_NODE = re.compile(NAME_PATTERN)
_NONCE = re.compile(r"[0-9a-f]{1,64}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_HEAD_COMPONENTS = 8
_BLOCK_COMPONENTS = 4
_MORE_COMPONENTS = 3


@dataclass(frozen=True, slots=True)
class Keep:
    """Fetch a block from ``source``, and keep it: it is ``depth`` blocks deep in its prompt.

    Attributes:
        block: the first.
        depth: its.
        source: of all blocks.
        more: blocks of the same model and layout, and their depths.
    """

    block: BlockKey
    depth: int
    source: str
    more: tuple[tuple[BlockKey, int], ...] = ()

    @property
    def all_blocks(self) -> tuple[tuple[BlockKey, int], ...]:
        """The blocks that are asked for, and their depths."""
        return ((self.block, self.depth), *self.more)


@dataclass(frozen=True, slots=True)
class Note:
    """The node ``source`` has a block, which is ``depth`` blocks deep in its prompt."""

    block: BlockKey
    depth: int
    source: str


@dataclass(frozen=True, slots=True)
class Pin:
    """Let nothing else take a block's place for ``lease_ms``."""

    block: BlockKey
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Unpin:
    """A block's lease is over."""

    block: BlockKey


@dataclass(frozen=True, slots=True)
class Drop:
    """Have a block no longer."""

    block: BlockKey


Action: TypeAlias = Keep | Note | Pin | Unpin | Drop


@dataclass(frozen=True, slots=True)
class Request:
    """What a member is asked to do.

    Attributes:
        member: the node that is asked.
        asker: the node that asks.
        nonce: hexadecimal; no request has that of another.
        action: with the block, and so with the tenant.

    Example:
        >>> from innet.kv.names import BlockFamily
        >>> block = BlockKey(BlockFamily("a1b2", "00ff", "bf16", 0, 32), bytes(32))
        >>> Request("h1", "h0", "7", Unpin(block)).name[:61]
        '/kv/a1b2/request/h1/h0/7/unpin/00ff/bf16/0-31/000000000000000'
    """

    member: str
    asker: str
    nonce: str
    action: Action

    def __post_init__(self) -> None:
        """
        Raises:
            KVError: a part cannot stand in a name.
        """
        source = (self.action.source,) if isinstance(self.action, Keep | Note) else ()
        for node in (self.member, self.asker, *source):
            if not _NODE.fullmatch(node):
                raise KVError(f"a request names nodes of a network; got {shown(node)}")
        if not _NONCE.fullmatch(self.nonce):
            raise KVError(f"the nonce of a request is hexadecimal; got {shown(self.nonce)}")
        if isinstance(self.action, Keep):
            _check_blocks(self.action)
        for number in _numbers_of(self.action):
            if not 0 <= number <= MAX_NUMBER:
                raise KVError(f"a request's numbers are from 0 to {MAX_NUMBER}; got {number}")

    @property
    def name(self) -> str:
        """The name of the member's answer."""
        family = self.action.block.family
        verb = _VERBS[type(self.action)]
        block = (family.model_digest, family.layout, family.layers, self.action.block.block_hash)
        head = f"{requests_prefix(family.tenant, self.member)}/{self.asker}/{self.nonce}/{verb}"
        return "/".join((head, *block[:3], block[3].hex(), *_arguments_of(self.action)))

    @classmethod
    def parse(cls, name: str) -> Request:
        """The request of that name.

        Raises:
            KVError: it is no request's name.
        """
        parts = name.split("/")
        if len(parts) < _HEAD_COMPONENTS or parts[:2] != ["", KV_PREFIX[1:]]:
            raise KVError(f"{shown(name)} is no name of a request")
        _, _, tenant, what, member, asker, nonce, verb, *rest = parts
        if what != REQUEST_COMPONENT:
            raise KVError(f"{shown(name)} is no name of a request")
        block = BlockKey.of_components(tenant, rest[:_BLOCK_COMPONENTS])
        return cls(member, asker, nonce, _action(verb, block, rest[_BLOCK_COMPONENTS:]))


def is_request(name: str) -> bool:
    """Whether a name below a tenant's prefix is meant as a request, and not as a block.

    >>> is_request("/kv/a1b2/request/h1/h0/7/unpin"), is_request("/kv/a1b2/00ff/bf16/0-31/00")
    (True, False)
    """
    return name.split("/")[3:4] == [REQUEST_COMPONENT]


def requests_prefix(tenant: str, member: str) -> str:
    """What all requests to a member begin with."""
    return f"{tenant_prefix(tenant)}/{REQUEST_COMPONENT}/{member}"


_VERBS: Final[dict[type[Action], str]] = {
    Keep: "keep",
    Note: "note",
    Pin: "pin",
    Unpin: "unpin",
    Drop: "drop",
}


def kind_of(block: BlockKey) -> tuple[str, str, str]:
    """What the blocks of one request have in common."""
    return block.family.tenant, block.family.model_digest, block.family.layout


def _check_blocks(keep: Keep) -> None:
    if len(keep.more) >= MAX_KEPT_AT_ONCE:
        raise KVError(f"one request is for {MAX_KEPT_AT_ONCE} blocks at most")
    kind = kind_of(keep.block)
    if any(kind_of(block) != kind for block, _ in keep.more):
        raise KVError("the blocks of one request are of one tenant, model and layout")


def _numbers_of(action: Action) -> Sequence[int]:
    if isinstance(action, Keep):
        return [depth for _, depth in action.all_blocks]
    if isinstance(action, Note):
        return (action.depth,)
    return (action.lease_ms,) if isinstance(action, Pin) else ()


def _arguments_of(action: Action) -> Sequence[str]:
    match action:
        case Keep():
            more = [(b.family.layers, b.block_hash.hex(), str(depth)) for b, depth in action.more]
            return (str(action.depth), action.source, *chain.from_iterable(more))
        case Note():
            return (str(action.depth), action.source)
    return tuple(map(str, _numbers_of(action)))


def _action(verb: str, block: BlockKey, arguments: Sequence[str]) -> Action:
    match verb, arguments:
        case "keep", [depth, source, *more] if _NUMBER.fullmatch(depth):
            return Keep(block, int(depth), source, _more(block.family, more))
        case "note", [depth, source] if _NUMBER.fullmatch(depth):
            return Note(block, int(depth), source)
        case "pin", [lease_ms] if _NUMBER.fullmatch(lease_ms):
            return Pin(block, int(lease_ms))
        case "unpin", []:
            return Unpin(block)
        case "drop", []:
            return Drop(block)
    raise KVError(f"nothing is asked by {shown('/'.join((verb, *arguments)))}")


def _more(family: BlockFamily, parts: Sequence[str]) -> tuple[tuple[BlockKey, int], ...]:
    found = []
    for start in range(0, min(len(parts), _MORE_COMPONENTS * MAX_KEPT_AT_ONCE), _MORE_COMPONENTS):
        layers, block_hash, depth, *_ = (*parts[start : start + _MORE_COMPONENTS], "", "")
        if not _NUMBER.fullmatch(depth):
            raise KVError(f"no block is asked for by {shown('/'.join(parts[start:]))}")
        components = (family.model_digest, family.layout, layers, block_hash)
        found.append((BlockKey.of_components(family.tenant, components), int(depth)))
    return tuple(found)
