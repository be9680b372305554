"""A client: ``python -m innet.lab.compare.block_stores.worker STORE SOCKET ARGUMENT``"""

from __future__ import annotations

import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence

import numpy as np

from innet.cluster.emulation.syscalls import set_parent_death_signal
from innet.errors import KVError
from innet.lab.compare.block_stores.client import StoreClient
from innet.lab.compare.block_stores.messages import Hello, Report, Turn
from innet.lab.compare.block_stores.registry import make_client


class TurnTaker:
    """Takes turns with one client."""

    def __init__(self, client: StoreClient) -> None:
        self._client = client
        self._source = self._landing = np.empty((0, 0), np.uint8)

    def take(self, turn: Turn) -> Report:
        """Puts and gets; what went wrong is in the report."""
        try:
            return self._take(turn)
        except Exception as error:  # whatever a foreign library raises is the turn's result
            traceback.print_exc()
            return Report(number=turn.number, error=f"{type(error).__name__}: {error}")

    def _take(self, turn: Turn) -> Report:
        self._make_room(turn)
        client = self._client
        client.load(self._source, self._landing)
        keys = [f"{turn.number}-{row}" for row in range(turn.blocks)]
        begun_s = _cpu_s()
        put_s = _each(client.put, keys)
        get_s = _each(client.get, keys)
        self._check()
        client.forget(keys)
        keys = [f"{key}-all" for key in keys]
        put_all_s = _timed(client.put_all, keys, turn.outstanding)
        get_all_s = _timed(client.get_all, keys, turn.outstanding)
        cpu_s = _cpu_s() - begun_s
        self._check()
        client.forget(keys)
        return Report(
            number=turn.number,
            put_s=put_s,
            get_s=get_s,
            put_all_s=put_all_s,
            get_all_s=get_all_s,
            cpu_s=cpu_s,
        )

    def _make_room(self, turn: Turn) -> None:
        """Blocks with contents; the same ones as long as their size is."""
        if self._source.shape != (turn.blocks, turn.block_bytes):
            random = np.random.default_rng(turn.block_bytes)
            self._source = random.integers(0, 256, (turn.blocks, turn.block_bytes), dtype=np.uint8)
            self._landing = np.zeros_like(self._source)

    def _check(self) -> None:
        """Compare what came with what was put, outside of the timed part."""
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


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def take_turns(store: str, path: str, make: Callable[[], StoreClient]) -> None:
    """Take turns with a client of ``store`` until the contest at ``path`` hangs up."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        client = make()
        taker = TurnTaker(client)
        connection.sendall(Hello(store=store, version=client.version).line())
        for line in connection.makefile("rb"):
            connection.sendall(taker.take(Turn.model_validate_json(line)).line())
    client.close()


def main() -> None:
    """Be a client of a store that others have made."""
    set_parent_death_signal(signal.SIGKILL)
    store, path, argument = sys.argv[1:]
    take_turns(store, path, lambda: make_client(store, argument))


if __name__ == "__main__":
    main()
