"""Checks whether the head of a Ray cluster answers; Ray itself notices only after a minute."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, Self

_PERIOD_S: Final = 1.0
_SILENT_S: Final = 4.0


class HeadWatch:
    """Reports when the head (GCS) stops answering, and when it answers again.

    A separate thread sends the requests, because a request without an answer blocks.
    """

    def __init__(self, ask: Callable[[], None], address: str, say: Callable[[str], None]) -> None:
        self._ask = ask
        self._address = address
        self._say = say
        self._answered = asyncio.Event()
        self._ended = threading.Event()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        asking = threading.Thread(
            target=self._keep_asking, args=(asyncio.get_running_loop(),), daemon=True
        )
        asking.start()
        self._watch = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._watch is not None
        self._ended.set()
        self._watch.cancel()

    def _keep_asking(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._ended.wait(_PERIOD_S):
            try:
                self._ask()
            except Exception:  # noqa: S112  # of many kinds, and none is an answer
                continue
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(self._answered.set)

    async def _run(self) -> None:
        is_silent = False
        while True:
            try:
                async with asyncio.timeout(None if is_silent else _SILENT_S):
                    await self._answered.wait()
            except TimeoutError:
                is_silent = True
                self._say(
                    f"the head of the Ray cluster at {self._address} has not answered for "
                    f"{_SILENT_S:g} s. Ray ends all machines if that lasts "
                    "RAY_gcs_rpc_server_reconnect_timeout_s (60 s by default); start it again if "
                    "it keeps its state, or end the network with `innet down`"
                )
            else:
                self._answered.clear()
                if is_silent:
                    is_silent = False
                    self._say(f"the head of the Ray cluster at {self._address} answers again")
