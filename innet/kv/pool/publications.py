"""What a node serves, and for how many of its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from innet.kv.pool.network import BlockNetwork, Contents, Sealed


@dataclass
class _Publication:
    task: asyncio.Future[Sealed | None]
    holders: int = 0


class Publications:
    """Blocks that this node serves while at least one part of it holds them.

    Of two that publish under one name at the same time, the second holds what the first published.
    """

    def __init__(self, network: BlockNetwork) -> None:
        self._network = network
        self._publications: dict[str, _Publication] = {}
        self._expected: set[str] = set()

    async def sign(self, name: str, contents: Contents) -> Sealed:
        """Sign and serve a block, and hold it."""
        while True:
            held = await self._hold(name, lambda: self._signed(name, contents))
            if held is not None:
                return held

    def begin_signing(self, name: str, contents: Contents) -> asyncio.Task[Sealed | None] | None:
        """Begin to sign and serve a block, and hold it; ``None``: one of the name is served.

        Who asks from now on waits until it is.
        """
        if name in self._publications:
            return None
        task = asyncio.ensure_future(self._signed(name, contents))
        self._publications[name] = _Publication(task, holders=1)
        return task

    async def add(self, name: str, block: Sealed) -> Sealed | None:
        """Serve a block that was signed before, and hold it; the one that is served.

        That may be another than ``block``, which nobody has verified then. ``None``: it is damaged.
        """

        return await self._hold(name, lambda: self._served(name, block))

    def begin(self, name: str, block: Sealed, on_damage: Callable[[], None]) -> bool:
        """Begin to serve a block that was verified before, and hold it; false: another of the name
        is served. Who asks from now on waits until it is; ``on_damage`` is called if it cannot be.
        """
        if name in self._publications:
            return False

        def ended(task: asyncio.Task[Sealed | None]) -> None:
            if not task.cancelled() and (task.exception() is not None or task.result() is None):
                on_damage()

        task = asyncio.ensure_future(self._served(name, block))
        task.add_done_callback(ended)
        self._publications[name] = _Publication(task, holders=1)
        return True

    def hold(self, name: str) -> None:
        """Hold a block that somebody holds already."""
        self._publications[name].holders += 1

    def release(self, name: str) -> None:
        """Hold a block no longer."""
        # After close, nobody holds anything.
        publication = self._publications.get(name)
        if publication is not None:
            self._release(name, publication)

    def expect(self, name: str) -> None:
        """Whoever asks for the block shall wait, when nobody holds it."""
        self._expected.add(name)
        if name not in self._publications:
            self._network.expect(name)

    def forget(self, name: str) -> None:
        """Whoever asks for the block shall be refused, when nobody holds it."""
        self._expected.discard(name)
        if name not in self._publications:
            self._network.withdraw(name)

    def close(self) -> None:
        """Serve nothing any more."""
        for name, publication in self._publications.items():
            publication.task.cancel()
            self._network.withdraw(name)
        for name in self._expected - set(self._publications):
            self._network.withdraw(name)
        self._publications.clear()
        self._expected.clear()

    # These two begin to publish when they are called, and not in a task's first turn.

    def _signed(self, name: str, contents: Contents) -> Coroutine[Any, Any, Sealed | None]:
        publishing = self._network.publish(name, contents)

        async def signed() -> Sealed:
            return Sealed(contents, await publishing)

        return signed()

    def _served(self, name: str, block: Sealed) -> Coroutine[Any, Any, Sealed | None]:
        publishing = self._network.publish_sealed(name, block)

        async def served() -> Sealed | None:
            return block if await publishing else None

        return served()

    async def _hold(
        self, name: str, publish: Callable[[], Coroutine[Any, Any, Sealed | None]]
    ) -> Sealed | None:
        publication = self._publications.get(name)
        if publication is None:
            publication = self._publications[name] = _Publication(asyncio.ensure_future(publish()))
        publication.holders += 1
        held = None
        try:
            held = await asyncio.shield(publication.task)
        finally:
            if held is None:
                self._release(name, publication)
        return held

    def _release(self, name: str, publication: _Publication) -> None:
        publication.holders -= 1
        if publication.task.done():
            self._end(name, publication)
        else:
            # What is half published cannot be withdrawn, but can be held again until then.
            publication.task.add_done_callback(lambda _: self._end(name, publication))

    def _end(self, name: str, publication: _Publication) -> None:
        if publication.holders or self._publications.get(name) is not publication:
            return
        del self._publications[name]
        self._network.withdraw(name)
        if name in self._expected:
            self._network.expect(name)
