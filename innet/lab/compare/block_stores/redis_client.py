"""Redis, through its own client with hiredis as the parser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import redis

from innet.lab.compare.block_stores.client import Blocks

_READ_BYTES = 1 << 20
"""Of one system call. The client's default of 64 KiB is slower with large blocks."""


class RedisClient:
    """Several calls at once are commands in a pipeline.

    Attributes:
        version: of the server.
    """

    def __init__(self, port: int) -> None:
        self._redis = redis.Redis(host="127.0.0.1", port=port, socket_read_size=_READ_BYTES)
        self.version = f"Redis {self._redis.info('server')['redis_version']}"
        self._source = self._landing = np.empty((0, 0), np.uint8)
        self._values: dict[int, bytes] = {}

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Nothing is registered: the client makes the bytes objects that it returns."""
        self._source, self._landing = source, landing
        self._values.clear()

    def put(self, key: str, row: int) -> None:
        """``SET``, from the array's own memory."""
        self._redis.set(key, memoryview(self._source[row]))

    def get(self, key: str, row: int) -> None:
        """``GET``. The bytes object is not copied to the landing: its user has no need of that."""
        self._values[row] = self._redis.get(key)

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Pipelines of so many commands."""
        for first in range(0, len(keys), outstanding):
            with self._redis.pipeline(transaction=False) as pipeline:
                for row, key in enumerate(keys[first : first + outstanding], first):
                    pipeline.set(key, memoryview(self._source[row]))
                pipeline.execute()

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """Pipelines of so many commands."""
        for first in range(0, len(keys), outstanding):
            with self._redis.pipeline(transaction=False) as pipeline:
                for key in keys[first : first + outstanding]:
                    pipeline.get(key)
                self._values |= dict(enumerate(pipeline.execute(), first))

    def landed(self) -> Blocks:
        """The values, in the landing."""
        for row, value in self._values.items():
            self._landing[row] = np.frombuffer(value, np.uint8)
        return self._landing

    def forget(self, keys: Sequence[str]) -> None:
        """``DEL``."""
        self._values.clear()
        self._redis.delete(*keys)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()


class RedisConnectionsClient(RedisClient):
    """Several calls at once have a connection each, and a thread."""

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """So many connections."""
        self._for_all(self.put, keys, outstanding)

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """So many connections."""
        self._for_all(self.get, keys, outstanding)

    def _for_all(
        self, call: Callable[[str, int], None], keys: Sequence[str], outstanding: int
    ) -> None:
        with ThreadPoolExecutor(outstanding) as threads:
            list(threads.map(call, keys, range(len(keys))))
