"""Mooncake's store over TCP, through registered buffers (its zero-copy calls).

``python -m innet.lab.compare.block_stores.mooncake PORT BYTES`` is the process with the memory. It
ends with the process that started it, or upon SIGTERM.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from mooncake.store import MooncakeDistributedStore

from innet.errors import KVError
from innet.lab.compare.block_stores.client import Blocks

_LOCAL_BUFFER_BYTES = 64 << 20


class MooncakeClient:
    """A client that offers no memory of its own, so that all blocks lie in the other process."""

    version = f"Mooncake {version('mooncake-transfer-engine-non-cuda')}"

    def __init__(self, master_port: int) -> None:
        """
        Raises:
            KVError: it cannot join its master.
        """
        self._store = connect(master_port, offered_bytes=0)
        self._source = self._landing = np.empty((0, 0), np.uint8)

    def load(self, source: Blocks, landing: Blocks) -> None:
        """Register both; what was registered before is no longer."""
        for before, now in ((self._source, source), (self._landing, landing)):
            if before is now:
                continue
            if before.size:
                self._store.unregister_buffer(before.ctypes.data)
            _checked("register_buffer", self._store.register_buffer(now.ctypes.data, now.nbytes))
        self._source, self._landing = source, landing

    def put(self, key: str, row: int) -> None:
        """``put_from`` the row."""
        block = self._source[row]
        _checked("put_from", self._store.put_from(key, block.ctypes.data, block.nbytes))

    def get(self, key: str, row: int) -> None:
        """``get_into`` the row."""
        block = self._landing[row]
        got = self._store.get_into(key, block.ctypes.data, block.nbytes)
        _checked("get_into", got - block.nbytes)

    def put_all(self, keys: Sequence[str], outstanding: int) -> None:
        """``batch_put_from`` so many at once."""
        for first in range(0, len(keys), outstanding):
            some = keys[first : first + outstanding]
            ends = self._store.batch_put_from(some, *_places(self._source, first, len(some)))
            for end in ends:
                _checked("batch_put_from", end)

    def get_all(self, keys: Sequence[str], outstanding: int) -> None:
        """``batch_get_into`` so many at once."""
        for first in range(0, len(keys), outstanding):
            some = keys[first : first + outstanding]
            ends = self._store.batch_get_into(some, *_places(self._landing, first, len(some)))
            for end in ends:
                _checked("batch_get_into", end - self._landing.shape[1])

    def landed(self) -> Blocks:
        """The landing."""
        return self._landing

    def forget(self, keys: Sequence[str]) -> None:
        """Remove them, though somebody may have a lease on them."""
        for key in keys:
            _checked("remove", self._store.remove(key, True))

    def close(self) -> None:
        """Leave the master."""
        self._store.close()


def connect(master_port: int, offered_bytes: int) -> MooncakeDistributedStore:
    """Join the master at a port of this machine, offering memory to all.

    Raises:
        KVError: that is not possible.
    """
    store = MooncakeDistributedStore()
    end = store.setup(
        "127.0.0.1",
        "P2PHANDSHAKE",
        offered_bytes,
        _LOCAL_BUFFER_BYTES,
        "tcp",
        "",
        f"127.0.0.1:{master_port}",
    )
    _checked("setup", end)
    return store


def _places(blocks: Blocks, first: int, count: int) -> tuple[list[int], list[int]]:
    rows = range(first, first + count)
    return [blocks[row].ctypes.data for row in rows], [blocks.shape[1]] * count


def _checked(call: str, end: int) -> None:
    if end != 0:
        raise KVError(f"Mooncake's {call} failed with {end}; its log says more")


def main() -> None:
    """Offer the memory until told to end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    store = connect(int(sys.argv[1]), offered_bytes=int(sys.argv[2]))
    print("ready", flush=True)
    signal.sigwait({signal.SIGTERM})
    store.close()


if __name__ == "__main__":
    main()
