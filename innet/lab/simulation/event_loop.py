"""An asyncio event loop whose clock is a simulation's.

Coroutines written for real time run in virtual time: ``asyncio.sleep``, ``asyncio.timeout`` and
whatever else looks at the loop's clock. Whenever nothing is ready to run, the loop lets the
simulation go on, up to its own next timer. :class:`VirtualTime` does so for a network's simulation.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from innet._native import _core
from innet.errors import SimulationError
from innet.lab.simulation.network import SimulatedNetwork
from innet.lab.simulation.streams import Streams

T = TypeVar("T")

_SLICE_PACKETS = 20_000
"""Delivered between two looks at what else there is to do, such as Ctrl-C."""


class _Selector:
    """What the loop takes for its source of events: time passes inside :meth:`select`."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        self._advance = advance

    def select(self, timeout_s: float | None) -> list[Any]:
        """Let up to ``timeout_s`` pass; ``None``: as long as it takes until something happens."""
        if timeout_s is None or timeout_s > 0:
            self._advance(timeout_s)
        return []


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Runs coroutines in the time of a simulation. It has no sockets, pipes or subprocesses."""

    def __init__(self, now_s: Callable[[], float], advance: Callable[[float | None], None]) -> None:
        """
        Args:
            now_s: the simulation's clock.
            advance: lets at most so many seconds pass, or with ``None`` any time, until something
                happens that coroutines may wait for.
        """
        super().__init__()
        self._now_s = now_s
        # Of a loop's own workings, BaseEventLoop leaves these to its subclasses.
        self._selector = _Selector(advance)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now_s()

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing: what happens in the simulation calls back by itself."""

    def _write_to_self(self) -> None:
        """Nothing: no other thread has to wake this loop."""


Action = Callable[[], None]


class LoopBackground:
    """A :class:`~innet.worker.background.Background` on a simulation's loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_error: Callable[[Exception], None]
    ) -> None:
        """
        Args:
            loop: of the simulation.
            on_error: hears of what an action raises.
        """
        self._loop = loop
        self._on_error = on_error
        self._closed = False

    def post(self, action: Action) -> None:
        """Run ``action`` at this instant, after what was posted before."""
        self._loop.call_soon(self._run, action)

    def post_at(self, time_s: float, action: Action) -> None:
        """Run ``action`` at ``time_s`` of the simulation."""
        self._loop.call_at(time_s, self._run, action)

    def close(self) -> None:
        """Nothing runs any more."""
        self._closed = True

    def _run(self, action: Action) -> None:
        if self._closed:
            return
        try:
            action()
        except Exception as error:  # the loop would only print it
            self._on_error(error)


class SimulatedCollector:
    """Keeps the ends of operations until somebody asks, or calls back whoever asked before."""

    def __init__(self, node: _core.SimulatedNode, time: VirtualTime) -> None:
        self._node = node
        self._time = time
        self._callbacks: dict[int, Callable[[int, str], None]] = {}
        self._ended: dict[int, tuple[int, str]] = {}
        self._discarded: set[int] = set()

    def on_ended(self, operation: int, status: int, detail: str) -> None:
        """The simulation says that an operation has ended."""
        callback = self._callbacks.pop(operation, None)
        if callback is not None:
            callback(status, detail)
        elif operation in self._discarded:
            self._discarded.remove(operation)
        else:
            self._ended[operation] = (status, detail)

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail of an operation that has ended.

        Raises:
            SimulationError: it has not; the simulation's time passes only while coroutines wait.
        """
        if operation not in self._ended:
            self._time.settle(self._node.index)
        if operation not in self._ended:
            raise SimulationError(
                "a blocking call would wait for ever: the simulation's time passes only while "
                "coroutines wait. Write `await comm.iallreduce(...)` in place of "
                "`comm.allreduce(...)`, and so for the other operations"
            )
        return self._ended.pop(operation)

    def done(self, operation: int) -> bool:
        """Whether the operation has ended, and nobody has taken that yet."""
        return operation in self._ended

    def cancel(self, operation: int) -> None:
        """Give the operation up."""
        self._node.cancel(operation)

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` when the operation ends, or at once."""
        ended = self._ended.pop(operation, None)
        if ended is not None:
            callback(*ended)
        else:
            self._callbacks[operation] = callback

    def deliver_batched(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """As :meth:`deliver`: nobody has to be woken up in a simulation."""
        self.deliver(operation, callback)

    def flush(self, operation: int) -> None:
        """Nothing is held back in a simulation."""

    def discard(self, operation: int) -> None:
        """Nobody will ask for the end of an operation that was not delivered."""
        if self._ended.pop(operation, None) is None:
            self._discarded.add(operation)


class VirtualTime:
    """Runs programs in the time of a network's simulation, and delivers what has ended there.

    Attributes:
        observer: called now and then while time passes; what it raises ends :meth:`run`.
        collectors: by node's number, who takes the ends of its operations.
        streams: of the network.
    """

    def __init__(self, network: SimulatedNetwork) -> None:
        self.observer: Callable[[], None] | None = None
        self.collectors: dict[int, SimulatedCollector] = {}
        self.streams = Streams(network)
        self._network = network
        self._native = network.native
        self._background_error: Exception | None = None
        self._runner = asyncio.Runner(
            loop_factory=lambda: VirtualTimeLoop(lambda: network.now_s, self._advance)
        )

    @property
    def now_s(self) -> float:
        """Seconds of virtual time since the simulation began."""
        return self._network.now_s

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Whose clock this is."""
        return self._runner.get_loop()

    def run(self, programs: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines until all have ended; see :meth:`Simulation.run`."""

        async def together() -> list[T]:
            tasks = [asyncio.ensure_future(program) for program in programs]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()

        return self._runner.run(together())

    def at(self, time_s: float, action: Callable[..., object], *arguments: Any) -> None:
        """Call ``action`` when time reaches ``time_s``."""
        self.loop.call_at(time_s, action, *arguments)

    def background(self) -> LoopBackground:
        """Runs a communicator's actions; an error of one ends the simulation."""
        return LoopBackground(self.loop, self._on_background_error)

    def settle(self, node: int) -> None:
        """Let a node end what needs no other, such as a publication."""
        self._native.collect(node)
        self.deliver_ended()

    def deliver_ended(self) -> None:
        """Hand out the ends of operations and streams."""
        for node, operation, status, detail in self._native.take_ended():
            self.collectors[node].on_ended(operation, status, detail)
        self.streams.deliver()

    def close(self) -> None:
        """End the programs that still run."""
        self._runner.close()

    def _on_background_error(self, error: Exception) -> None:
        self._background_error = self._background_error or error

    def _advance(self, limit_s: float | None) -> None:
        if self._background_error is not None:
            raise self._background_error
        if self.observer is not None:
            self.observer()
        until_ns = None if limit_s is None else self._native.now_ns + math.ceil(limit_s * 1e9)
        stop = self._native.run(until_ns, _SLICE_PACKETS)
        if stop == _core.STOP_ENDED:
            self.deliver_ended()
        elif stop == _core.STOP_UNSOUND:
            raise SimulationError(
                f"the tables of a node disagree: {self._native.complaint}. "
                "This is a defect of innet; please report it with the topology and the program"
            )
        elif stop == _core.STOP_STUCK:
            raise SimulationError(
                f"time stands still at {self.now_s:.9f} s: some node is always due at once. "
                "This is a defect of innet; please report it with the topology and the program"
            )
        elif stop == _core.STOP_TIME and limit_s is None:
            raise SimulationError(
                f"nothing is left to happen at {self.now_s:.6f} s, and programs still wait: "
                "for something that none of them does?"
            )
