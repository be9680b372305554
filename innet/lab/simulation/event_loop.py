"""An asyncio event loop with the clock of a simulation.

``asyncio.sleep``, ``asyncio.timeout`` and all other users of the loop's clock run in virtual time.
When no callback is ready, the loop advances the simulation up to its own next timer.
:class:`VirtualTime` is such a loop for a network's simulation.
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
"""Packets delivered between two returns to the event loop, which handles Ctrl-C."""


class _Selector:
    """Replaces the loop's selector: time passes inside :meth:`select`."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        self._advance = advance

    def select(self, timeout_s: float | None) -> list[Any]:
        """Let up to ``timeout_s`` pass; ``None``: until the next event."""
        if timeout_s is None or timeout_s > 0:
            self._advance(timeout_s)
        return []


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Runs coroutines in virtual time, without sockets, pipes or subprocesses."""

    def __init__(self, now_s: Callable[[], float], advance: Callable[[float | None], None]) -> None:
        """
        Args:
            now_s: the simulation's clock.
            advance: lets at most the given seconds pass, or any time with ``None``, until an event
                for which coroutines may wait.
        """
        super().__init__()
        self._now_s = now_s
        # BaseEventLoop leaves these attributes to its subclasses.
        self._selector = _Selector(advance)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now_s()

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing: events of the simulation call back directly."""

    def _write_to_self(self) -> None:
        """Nothing: no other thread wakes this loop."""


Action = Callable[[], None]


class LoopBackground:
    """A :class:`~innet.worker.background.Background` on a simulation's loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_error: Callable[[Exception], None]
    ) -> None:
        """
        Args:
            loop: of the simulation.
            on_error: takes the exception of an action.
        """
        self._loop = loop
        self._on_error = on_error
        self._closed = False

    def post(self, action: Action) -> None:
        """Run ``action`` at this instant, after earlier actions."""
        self._loop.call_soon(self._run, action)

    def post_at(self, time_s: float, action: Action) -> None:
        """Run ``action`` at ``time_s`` of the simulation."""
        self._loop.call_at(time_s, self._run, action)

    def close(self) -> None:
        """Drop all actions, present and future."""
        self._closed = True

    def _run(self, action: Action) -> None:
        if self._closed:
            return
        try:
            action()
        except Exception as error:  # the loop would only print it
            self._on_error(error)


class SimulatedCollector:
    """Keeps completions of a node's operations until they are taken, or calls back."""

    def __init__(self, node: _core.SimulatedNode, time: VirtualTime) -> None:
        self._node = node
        self._time = time
        self._callbacks: dict[int, Callable[[int, str], None]] = {}
        self._ended: dict[int, tuple[int, str]] = {}
        self._discarded: set[int] = set()

    def on_ended(self, operation: int, status: int, detail: str) -> None:
        """Take a completion from the simulation."""
        callback = self._callbacks.pop(operation, None)
        if callback is not None:
            callback(status, detail)
        elif operation in self._discarded:
            self._discarded.remove(operation)
        else:
            self._ended[operation] = (status, detail)

    def wait(self, operation: int, timeout_s: float) -> tuple[int, str] | None:
        """Status and detail of a completed operation.

        Raises:
            SimulationError: it has not completed; time passes only while coroutines wait.
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
        """Whether the operation has completed and its completion was not taken."""
        return operation in self._ended

    def cancel(self, operation: int) -> None:
        """Cancel the operation."""
        self._node.cancel(operation)

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback(status, detail)`` when the operation ends, or at once."""
        ended = self._ended.pop(operation, None)
        if ended is not None:
            callback(*ended)
        else:
            self._callbacks[operation] = callback

    def deliver_batched(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """Call ``callback`` when the operation ends; a simulation needs no batches."""
        self.deliver(operation, callback)

    def flush(self, operation: int) -> None:
        """Nothing: a simulation holds no completion back."""

    def discard(self, operation: int) -> None:
        """Drop the completion of an operation."""
        if self._ended.pop(operation, None) is None:
            self._discarded.add(operation)


class VirtualTime:
    """Runs programs in virtual time, and delivers completions of operations and streams.

    Attributes:
        observer: called while time passes; an exception of it ends :meth:`run`.
        collectors: of the operations of each node, by its number.
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
        """The loop with this clock."""
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
        """Complete the node's operations that need no other node, such as publications."""
        self._native.collect(node)
        self.deliver_ended()

    def deliver_ended(self) -> None:
        """Deliver completions of operations and streams."""
        for node, operation, status, detail in self._native.take_ended():
            self.collectors[node].on_ended(operation, status, detail)
        self.streams.deliver()

    def close(self) -> None:
        """Cancel the programs that still run."""
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
                f"nothing is left to happen at {self.now_s:.6f} s, but programs still wait; does "
                "every rank call the operation for which the others wait?"
            )
