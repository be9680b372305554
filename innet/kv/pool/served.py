"""The blocks that a node serves to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from innet.errors import KVError
from innet.kv.pool.network import BlockNetwork, Contents, Sealed
from innet.kv.pool.waiting import wait_to_end


@dataclass(slots=True)
class Publication:
    """A block that is served, or being published.

    Attributes:
        publishing: ends with the block, or with those that were published together; ``None``: it
            has ended.
        place: of the block among those; ``None``: it is the only one.
        block: the block, once it is served.
        holders: parts of this node that hold it.
    """

    publishing: asyncio.Future[Any] | None = None
    place: int | None = None
    block: Sealed | None = None
    holders: int = 1

    def settle(self) -> bool:
        """Whether the publication has ended; it forgets the blocks that were published with it.

        Raises:
            KVError: the block cannot be published.
            CancelledError: the pool closes.
        """
        if self.publishing is None:
            return True
        if not self.publishing.done():
            return False
        ended = self.publishing.result()
        self.block = ended if self.place is None else ended[self.place]
        self.publishing = None
        return True


class ServedBlocks:
    """The blocks that this node serves, each while at least one of its parts holds it.

    Concurrent publishers of one name share the first publication.
    """

    def __init__(self, network: BlockNetwork) -> None:
        self._network = network
        self._publications: dict[str, Publication] = {}
        self._expected: set[str] = set()
        self._is_closed = False

    async def sign(self, name: str, contents: Contents) -> Sealed:
        """Sign and serve a block, and hold it."""
        while True:
            held = await self._hold(name, lambda: self._network.publish(name, contents))
            if held is not None:
                return held
            await asyncio.sleep(0)  # until the others release the damaged block, too

    def start_signing(self, blocks: Sequence[tuple[str, Contents]]) -> dict[str, Publication]:
        """Start to sign and serve blocks together, and hold them, except those whose names are
        served already.

        Their requesters wait from now on.
        """
        self._require_open()
        new: dict[str, Contents] = {}
        for name, contents in blocks:
            if name not in self._publications:
                new.setdefault(name, contents)
        started: dict[str, Publication] = {}
        if not new:
            return started
        together = self._network.publish_together(tuple(new), tuple(new.values()))
        publishing = asyncio.ensure_future(together)
        for place, name in enumerate(new):
            self._publications[name] = started[name] = Publication(publishing, place)
        return started

    async def published(self, publication: Publication) -> Sealed | None:
        """The block that is being published; cancelling one waiter does not affect the others.

        Raises:
            KVError: the block cannot be published, or the pool closes meanwhile.
        """
        publishing = publication.publishing
        try:
            if not publication.settle():
                assert publishing is not None
                await asyncio.shield(publishing)
                publication.settle()
            return publication.block
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if (
                publishing is None
                or not publishing.cancelled()
                or (task is not None and task.cancelling())
            ):
                raise
            raise _closed() from None

    async def wait_until_signed(self, name: str) -> None:
        """Wait until nothing is being signed under a name, even if this is cancelled meanwhile."""
        publication = self._publications.get(name)
        if publication is not None and publication.publishing is not None:
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
        assert publication.publishing is not None
        publication.publishing.add_done_callback(ended)
        return True

    def adopt(self, name: str, block: Sealed) -> bool:
        """Hold a block that the network serves on its own; false: its name is served already."""
        if name in self._publications:
            return False
        self._publications[name] = Publication(block=block)
        self._network.adopt(name)
        return True

    def hold(self, name: str) -> None:
        """Hold a block that another part holds already."""
        if not self._is_closed:
            self._publications[name].holders += 1

    def release(self, *names: str) -> None:
        """End one hold of each block."""
        ended = list(filter(self._is_last_hold, names))
        if ended:
            self._end_serving(ended)

    def expect(self, name: str) -> None:
        """Let requesters of the block wait while no part of this node holds it."""
        self._expected.add(name)
        if name not in self._publications:
            self._network.expect(name)

    def forget_expected(self, name: str) -> None:
        """The block is about to be published: its requesters wait for that alone."""
        self._expected.discard(name)

    def refuse(self, name: str) -> None:
        """Refuse requesters of the block while no part of this node holds it."""
        self._expected.discard(name)
        if name not in self._publications:
            self._network.withdraw(name)

    def serve_again(self) -> None:
        """Serve what others hold or expect, over a network that has replaced the one before."""
        for name, publication in self._publications.items():
            with suppress(KVError, asyncio.CancelledError):
                if publication.settle() and publication.block is not None:
                    again = self._network.publish_sealed(name, publication.block)
                    publication.publishing = asyncio.ensure_future(again)
                    publication.place = None
        for name in self._expected - set(self._publications):
            self._network.expect(name)

    def close(self) -> None:
        """Stop serving; callers that wait for a publication receive an error."""
        self._is_closed = True
        for name, publication in self._publications.items():
            if publication.publishing is not None:
                publication.publishing.cancel()
            self._network.withdraw(name)
        for name in self._expected - set(self._publications):
            self._network.withdraw(name)
        self._publications.clear()
        self._expected.clear()

    def _require_open(self) -> None:
        if self._is_closed:
            raise _closed()

    def _begin(self, name: str, publish: Callable[[], Awaitable[Sealed | None]]) -> Publication:
        self._require_open()
        publication = Publication(asyncio.ensure_future(publish()))
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
            held = await self.published(publication)
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
        publishing = publication.publishing
        if publishing is None or publishing.done():
            return self._is_over(name, publication)

        # A publication in progress cannot be withdrawn, but another part may hold it meanwhile.
        def ended(_: object) -> None:
            if self._is_over(name, publication):
                self._end_serving([name])

        publishing.add_done_callback(ended)
        return False

    def _is_over(self, name: str, publication: Publication) -> bool:
        """Whether no part of this node holds a publication, which is then dropped."""
        if publication.holders or self._publications.get(name) is not publication:
            if publication.publishing is not None:
                with suppress(KVError, asyncio.CancelledError):
                    publication.settle()
            return False
        del self._publications[name]
        return True

    def _end_serving(self, names: Sequence[str]) -> None:
        self._network.end_serving(names)
        for name in self._expected.intersection(names):
            self._network.expect(name)


def _closed() -> KVError:
    return KVError("the pool is closed and serves no blocks; open another")
