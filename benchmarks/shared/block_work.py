"""The turns of a block store's client in ``kv_store.py``: puts and gets, timed and verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from innet.errors import KVError
from innet.lab.turns import Joined, serve

Blocks = npt.NDArray[np.uint8]
"""Blocks of equal size, one below the other: ``(blocks, bytes of one)``."""


class StoreClient(Protocol):
    """A client of a store in another process, used in the way that is fastest for this store.

    A put ends when another client would find the block; a get, when its bytes are in this process.

    Attributes:
        version: of the store, for the report.
    """

    version: str

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Prepare to put the rows of ``source``, and to get into the rows of ``landing``."""
        ...

    def put(self, key: str, row: int) -> None:
        """Put a row of the source."""
        ...

    def get(self, key: str, row: int) -> None:
        """Get a stored block for a row of the landing."""
        ...

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Put all rows, at most ``outstanding`` at once."""
        ...

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Get all rows, at most ``outstanding`` at once."""
        ...

    def landed(self) -> Blocks:
        """The blocks that gets have received since :meth:`load`."""
        ...

    def forget(self, keys: Sequence[str]) -> None:
        """Let the store drop these blocks."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class BlocksTask(BaseModel):
    """Put blocks and get them back: one after the other, then several at once."""

    block_bytes: int = Field(ge=1)
    blocks: int = Field(ge=1)
    outstanding: list[Annotated[int, Field(ge=1)]] = Field(
        min_length=1, description="puts or gets at once, of each measurement of throughput"
    )

    def __str__(self) -> str:
        return f"with {self.blocks} blocks of {self.block_bytes} bytes"


class BlocksResult(BaseModel):
    """The durations of the calls of a turn."""

    put_s: list[float] = Field(description="of each of the puts in a row")
    get_s: list[float] = Field(description="of each of the gets in a row")
    put_all_s: list[float] = Field(description="of all blocks, so many at once as the task says")
    get_all_s: list[float] = Field(description="of all blocks, so many at once as the task says")


class BlocksWork:
    """Takes turns with one client of a store."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._source = self._landing = np.empty((0, 0), np.uint8)

    def prepare(self, turn: int, task: dict[str, Any]) -> None:
        """Make the blocks; turns with blocks of one size share their contents."""
        self._turn = turn
        self._task = BlocksTask.model_validate(task)
        shape = self._task.blocks, self._task.block_bytes
        if self._source.shape != shape:
            random = np.random.default_rng(self._task.block_bytes)
            self._source = random.integers(0, 256, shape, dtype=np.uint8)
            self._landing = np.zeros_like(self._source)
        self._client.load(self._source, self._landing)

    def run(self) -> None:
        """Puts and gets, verified outside of the timed parts."""
        client = self._client
        keys = [f"{self._turn}-{row}" for row in range(self._task.blocks)]
        put_s = _each(client.put, keys)
        get_s = _each(client.get, keys)
        self._check()
        client.forget(keys)
        put_all_s, get_all_s = list[float](), list[float]()
        for outstanding in self._task.outstanding:
            several = [f"{key}-{outstanding}" for key in keys]
            put_all_s.append(_timed(client.put_all, several, outstanding))
            get_all_s.append(_timed(client.get_all, several, outstanding))
            self._check()
            client.forget(several)
        self._result = BlocksResult(
            put_s=put_s, get_s=get_s, put_all_s=put_all_s, get_all_s=get_all_s
        )

    def report(self) -> BlocksResult:
        """The times."""
        return self._result

    def _check(self) -> None:
        """Compare the received blocks with the source."""
        if not np.array_equal(self._client.landed(), self._source):
            raise KVError("the blocks that came back are not those that were put")
        self._landing[:] = 0


def _each(call: Callable[[str, int], None], keys: Sequence[str]) -> list[float]:
    durations_s = []
    for row, key in enumerate(keys):
        begun_s = time.perf_counter()
        call(key, row)
        durations_s.append(time.perf_counter() - begun_s)
    return durations_s


def _timed(
    call: Callable[[Sequence[str], int], None], keys: Sequence[str], outstanding: int
) -> float:
    begun_s = time.perf_counter()
    call(keys, outstanding)
    return time.perf_counter() - begun_s


def take_turns(store: str, path: str, client: StoreClient) -> None:
    """Take turns with a client of ``store`` until the conductor at ``path`` hangs up."""
    serve(path, Joined(team=store, version=client.version), BlocksWork(client))
    client.close()
