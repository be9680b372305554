"""The blocks that a node serves to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from innet.errors import KVError
from innet.kv.pool.network import BlockNetwork, Contents, Sealed
from innet.kv.pool.waiting import wait_to_end


@dataclass
class _Publication:
    publishing: asyncio.Future[Sealed | None]
    holders: int


class ServedBlocks:
    """The blocks that this node serves, each while at least one of its parts holds it.

    Concurrent publishers of one name share the first publication.
    """

    def __init__(self, network: BlockNetwork) -> None:
        self._network = network
        self._publications: dict[str, _Publication] = {}
        self._expected: set[str] = set()
        self._is_closed = False

    async def sign(self, name: str, contents: Contents) -> Sealed:
        """Sign and serve a block, and hold it."""
        while True:
            held = await self._hold(name, lambda: self._network.publish(name, contents))
            if held is not None:
                return held
            await asyncio.sleep(0)  # until the others release the damaged block, too

    def start_signing(self, name: str, contents: Contents) -> asyncio.Future[Sealed | None] | None:
        """Start to sign and serve a block, and hold it; ``None``: its name is served already.

        Its requesters wait from now on.
        """
        if name in self._publications:
            return None
        return self._begin(name, lambda: self._network.publish(name, contents)).publishing

    async def published(self, publishing: asyncio.Future[Sealed | None]) -> Sealed | None:
        """The block that is being published; cancelling one waiter does not affect the others.

        Raises:
            KVError: the block cannot be published, or the pool closes meanwhile.
        """
        try:
            return publishing.result() if publishing.done() else await asyncio.shield(publishing)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not publishing.cancelled() or (task is not None and task.cancelling()):
                raise
            raise _closed() from None

    async def wait_until_signed(self, name: str) -> None:
        """Wait until nothing is being signed under a name, even if this is cancelled meanwhile."""
        publication = self._publications.get(name)
        if publication is not None:
            await wait_to_end(publication.publishing)

    async def add(self, name: str, block: Sealed) -> Sealed | None:
        """Serve a signed block, and hold it; the block that is served.

        It may differ from ``block``, which is then not verified. ``None``: the block is damaged.
        """
        return await self._hold(name, lambda: self._network.publish_sealed(name, block))

    def start_serving(self, name: str, block: Sealed, on_damage: Callable[[], None]) -> bool:
        """Start to serve a verified block, and hold it; false: its name is served already.

        Its requesters wait from now on; ``on_damage`` is called if it cannot be served.
        """
        if name in self._publications:
            return False

        def ended(serving: asyncio.Future[Sealed | None]) -> None:
            if not serving.cancelled() and (serving.exception() or serving.result() is None):
                on_damage()

        publication = self._begin(name, lambda: self._network.publish_sealed(name, block))
        publication.publishing.add_done_callback(ended)
        return True

    def adopt(self, name: str, block: Sealed) -> bool:
        """Hold a block that the network serves on its own; false: its name is served already."""
        if name in self._publications:
            return False
        served: asyncio.Future[Sealed | None] = asyncio.get_running_loop().create_future()
        served.set_result(block)
        self._publications[name] = _Publication(served, holders=1)
        self._network.adopt(name)
        return True

    def hold(self, name: str) -> None:
        """Hold a block that another part holds already."""
        if not self._is_closed:
            self._publications[name].holders += 1

    def release(self, *names: str) -> None:
        """End one hold of each block."""
        ended = [name for name in names if self._is_last_hold(name)]
        if ended:
            self._end_serving(ended)

    def expect(self, name: str) -> None:
        """Let requesters of the block wait while nobody holds it."""
        self._expected.add(name)
        if name not in self._publications:
            self._network.expect(name)

    def forget_expected(self, name: str) -> None:
        """The block is about to be published: its requesters wait for that alone."""
        self._expected.discard(name)

    def refuse(self, name: str) -> None:
        """Refuse requesters of the block while nobody holds it."""
        self._expected.discard(name)
        if name not in self._publications:
            self._network.withdraw(name)

    def serve_again(self) -> None:
        """Serve what others hold or expect, over a network that has replaced the one before."""
        for name, publication in self._publications.items():
            served = publication.publishing
            if served.done() and not served.cancelled() and served.exception() is None:
                block = served.result()
                if block is not None:
                    again = self._network.publish_sealed(name, block)
                    publication.publishing = asyncio.ensure_future(again)
        for name in self._expected - set(self._publications):
            self._network.expect(name)

    def close(self) -> None:
        """Stop serving; callers that wait for a publication receive an error."""
        self._is_closed = True
        for name, publication in self._publications.items():
            publication.publishing.cancel()
            self._network.withdraw(name)
        for name in self._expected - set(self._publications):
            self._network.withdraw(name)
        self._publications.clear()
        self._expected.clear()

    def _begin(self, name: str, publish: Callable[[], Awaitable[Sealed | None]]) -> _Publication:
        if self._is_closed:
            raise _closed()
        publication = _Publication(asyncio.ensure_future(publish()), holders=1)
        self._publications[name] = publication
        return publication

    async def _hold(
        self, name: str, publish: Callable[[], Awaitable[Sealed | None]]
    ) -> Sealed | None:
        publication = self._publications.get(name)
        if publication is None:
            publication = self._begin(name, publish)
        else:
            publication.holders += 1
        held = None
        try:
            held = await self.published(publication.publishing)
        finally:
            if held is None:
                self.release(name)
        return held

    def _is_last_hold(self, name: str) -> bool:
        """End one hold of a block; whether to end serving it now."""
        publication = self._publications.get(name)
        if publication is None:  # after close, nothing is held
            return False
        publication.holders -= 1
        if publication.publishing.done():
            return self._is_over(name, publication)

        # A publication in progress cannot be withdrawn, but another part may hold it meanwhile.
        def ended(_: object) -> None:
            if self._is_over(name, publication):
                self._end_serving([name])

        publication.publishing.add_done_callback(ended)
        return False

    def _is_over(self, name: str, publication: _Publication) -> bool:
        """Whether nobody holds a publication, which is then forgotten."""
        if publication.holders or self._publications.get(name) is not publication:
            return False
        del self._publications[name]
        return True

    def _end_serving(self, names: Sequence[str]) -> None:
        self._network.end_serving(names)
        for name in self._expected.intersection(names):
            self._network.expect(name)


def _closed() -> KVError:
    return KVError("the pool is closed and serves no blocks; open another")
