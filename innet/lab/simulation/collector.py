"""The ends of a simulated node's operations."""

from __future__ import annotations

from collections.abc import Callable

from innet._native import _core
from innet.errors import SimulationError


class SimulatedCollector:
    """Keeps the ends of operations until somebody asks, or calls back whoever asked before."""

    def __init__(self, node: _core.NodeHandle, settle: Callable[[], None]) -> None:
        """``settle`` lets the node end what needs no other, such as a publication."""
        self._node = node
        self._settle = settle
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
            self._settle()
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

    def deliver_quietly(self, operation: int, callback: Callable[[int, str], None]) -> None:
        """As :meth:`deliver`: nobody has to be woken up in a simulation."""
        self.deliver(operation, callback)

    def hasten(self, operation: int) -> None:
        """All is told of when it ends."""

    def discard(self, operation: int) -> None:
        """Nobody will ask for the end of an operation that was not delivered."""
        if self._ended.pop(operation, None) is None:
            self._discarded.add(operation)
