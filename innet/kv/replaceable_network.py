"""The network of a pool whose launcher may end and be started again."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from innet.errors import KVError
from innet.kv.pool.network import (
    BlockNetwork,
    Cause,
    Contents,
    KeepOptions,
    NetworkEvent,
    Sealed,
)

_NOBODY: Final[Mapping[str, int]] = MappingProxyType({})


class ReplaceableNetwork:
    """A :class:`~innet.kv.pool.network.BlockNetwork` whose node is replaced by another one.

    Between :meth:`lose` and :meth:`replace` it has no members, so that gets are misses at once. The
    node of before still signs what is put then.
    """

    def __init__(self, network: BlockNetwork) -> None:
        """``network``: of the first node."""
        self._network = network
        self._keeping: KeepOptions | None = None
        self._is_lost = False

    def lose(self) -> None:
        """The other members are out of reach."""
        self._is_lost = True

    def replace(self, network: BlockNetwork) -> None:
        """Go on over another node; the caller closes the network of before."""
        if self._keeping is not None:
            network.start_keeping(self._keeping)
        self._network = network
        self._is_lost = False

    @property
    def node(self) -> str:
        return self._network.node

    @property
    def tenant(self) -> str:
        return self._network.tenant

    @property
    def most_kept_at_once(self) -> int:
        return self._network.most_kept_at_once

    def members(self) -> Mapping[str, int]:
        return _NOBODY if self._is_lost else self._network.members()

    def distance(self, member: str) -> int:
        return self._network.distance(member)

    def publish(self, name: str, contents: Contents) -> Awaitable[Sealed]:
        return self._network.publish(name, contents)

    def publish_together(
        self, names: Sequence[str], contents: Sequence[Contents]
    ) -> Awaitable[Sequence[Sealed]]:
        return self._network.publish_together(names, contents)

    def publish_sealed(self, name: str, block: Sealed) -> Awaitable[Sealed | None]:
        return self._network.publish_sealed(name, block)

    def expect(self, name: str) -> None:
        self._network.expect(name)

    def withdraw(self, name: str) -> None:
        self._network.withdraw(name)

    def end_serving(self, names: Sequence[str]) -> None:
        self._network.end_serving(names)

    def fetch(self, name: str, source: str, timeout_s: float) -> Awaitable[Sealed | Cause]:
        return self._network.fetch(name, source, timeout_s)

    def request(
        self, member: str, action: str, timeout_s: float, attached: Sequence[str] = ()
    ) -> Awaitable[Sealed | Cause]:
        return self._network.request(member, action, timeout_s, attached)

    def fetch_together(
        self, names: Sequence[str], source: str, timeout_s: float
    ) -> Awaitable[list[Sealed | Cause]]:
        return self._network.fetch_together(names, source, timeout_s)

    def probe(self, name: str, source: str, timeout_s: float) -> Awaitable[Cause | None]:
        return self._network.probe(name, source, timeout_s)

    def empty_cache(self) -> None:
        self._network.empty_cache()

    def start_keeping(self, options: KeepOptions) -> None:
        self._keeping = options
        self._network.start_keeping(options)

    def adopt(self, name: str) -> None:
        self._network.adopt(name)

    def grant_room(self, room_bytes: int) -> None:
        self._network.grant_room(room_bytes)

    def stop_keeping(self) -> None:
        self._keeping = None
        self._network.stop_keeping()

    async def next_events(self) -> list[NetworkEvent]:
        """See :meth:`BlockNetwork.next_events`; it waits across replacements."""
        while True:
            network = self._network
            try:
                return await network.next_events()
            except KVError:
                if network is self._network:
                    raise

    def take_events(self) -> list[NetworkEvent]:
        return self._network.take_events()
