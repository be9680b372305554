"""One emulated network whose hosts' workers are processes that tests fork."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from innet.cluster.launch import Session
from innet.settings import Settings, TransportSettings
from innet.topology import load_topology

_PLACE = Path(__file__).parent / "workers" / "place.py"
_START_TIMEOUT_S = 60.0

T = TypeVar("T")

Environment = dict[str, str]


class Hosts:
    """A star of ``size`` hosts; each :meth:`job` gives its ranks' environments.

    The network outlives the jobs: a test costs a job, not a launch. Its event loop has a thread of
    its own, because the test waits for its processes in the main one.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="torch-suite-network")
        # Sockets alone are passed to processes that are forked by a server.
        settings = Settings(transport=TransportSettings(shared_memory=False))
        self._session = Session(load_topology(f"star:{size}"), settings=settings)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._session.__aenter__())
        except BaseException:
            self._stop_loop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._run(self._session.__aexit__(None, None, None))
        finally:
            self._stop_loop()

    @contextlib.contextmanager
    def job(self) -> Iterator[list[Environment]]:
        """A new job over all hosts: the environment of the worker of each rank."""
        places = self._run(self._open_job())
        try:
            yield places.environments
        finally:
            self._run(places.close())

    async def _open_job(self) -> _Places:
        places = _Places(self._session, self._size)
        await asyncio.wait_for(places.taken, _START_TIMEOUT_S)
        return places

    def _run(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Places:
    """A job whose processes only hold the hosts' places."""

    def __init__(self, session: Session, size: int) -> None:
        self._size = size
        self._by_rank: dict[int, Environment] = {}
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._job = asyncio.ensure_future(
            session.run_workers(
                [sys.executable, "-S", str(_PLACE)],
                output=self._take,
                threads=1,  # as the forked ranks
            )
        )
        self._job.add_done_callback(self._ended)

    @property
    def environments(self) -> list[Environment]:
        return [self._by_rank[rank] for rank in range(self._size)]

    async def close(self) -> None:
        self._job.cancel()
        await asyncio.wait([self._job])

    def _take(self, _: str, line: str) -> None:
        environment: Environment = json.loads(line)
        self._by_rank[int(environment["RANK"])] = environment
        if len(self._by_rank) == self._size and not self.taken.done():
            self.taken.set_result(None)

    def _ended(self, job: asyncio.Future[None]) -> None:
        if not job.cancelled() and not self.taken.done():
            self.taken.set_exception(job.exception() or RuntimeError("the places were left"))
