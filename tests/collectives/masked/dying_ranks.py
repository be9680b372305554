"""Communicators in one process whose ranks die at chosen moments, which not all others see."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from innet.errors import PeerError, RankFailed

_TIMEOUT_S = 10.0


class Died(Exception):
    """This rank's process is gone."""


@dataclass(frozen=True)
class Death:
    """When a rank dies, and who gets to know what it said last.

    Attributes:
        node: the rank's.
        call: how many calls of its communicators it makes before.
        speaks: its part in the next call is still published.
        heard_by: the others that end that call well, as if nothing had happened.
        ahead: ranks that die without this do not end the collective before it.
    """

    node: str
    call: int
    speaks: bool = False
    heard_by: Collection[str] = ()
    ahead: bool = False


@dataclass
class _Call:
    """A collective, by its number in a group.

    Attributes:
        given: by node.
        dying: nodes that die in it.
        failed: why nodes do not take part.
    """

    given: dict[str, Any] = field(default_factory=dict)
    dying: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


class World:
    """All nodes, and the deaths to come."""

    def __init__(self, nodes: tuple[str, ...], deaths: Collection[Death]) -> None:
        self.nodes = nodes
        self.changed = threading.Condition()
        self.deaths = {death.node: death for death in deaths}
        self.ahead = {death.node: death.call for death in deaths if death.ahead}
        self.dead: dict[str, Death] = {}
        self.ended: set[str] = set()
        self.calls = dict.fromkeys(nodes, 0)
        self.groups: dict[tuple[str, ...], _Group] = {}

    def run(self, program: Callable[[DyingCommunicator], Any]) -> dict[str, Any]:
        """What each node's program gives, or raises."""

        def guarded(node: str) -> Any:
            try:
                return program(DyingCommunicator(self, self.group(self.nodes), node))
            except Exception as error:
                return error
            finally:
                with self.changed:
                    self.ended.add(node)
                    self.changed.notify_all()

        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return dict(zip(self.nodes, pool.map(guarded, self.nodes), strict=True))

    def group(self, nodes: tuple[str, ...]) -> _Group:
        return self.groups.setdefault(nodes, _Group(nodes))

    def is_due(self, node: str) -> Death | None:
        death = self.deaths.get(node)
        self.calls[node] += 1
        return death if death is not None and self.calls[node] > death.call else None


class _Group:
    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.nodes = nodes
        self.calls: dict[int, _Call] = {}
        self.objects: dict[tuple[str, str], np.ndarray] = {}
        self.shrinking: set[str] = set()
        self.next: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fetched:
    """An object that is being fetched."""

    wait: Callable[[], np.ndarray]


class DyingCommunicator:
    """One node's view of a group: of a communicator, what masked sums need."""

    def __init__(self, world: World, group: _Group, node: str) -> None:
        self._world, self._group, self._node = world, group, node
        self.nodes = group.nodes
        self.size = len(group.nodes)
        self.rank = group.nodes.index(node)
        self.attributes: dict[str, Any] = {}
        self._number = 0

    def publish(self, name: str, data: bytes) -> None:
        with self._world.changed:
            death = self._world.is_due(self._node)
            if death is None or death.speaks:
                self._group.objects[self._node, name] = np.frombuffer(data, np.uint8)
            self._die_of(death)
            self._world.changed.notify_all()

    def withdraw(self, name: str) -> None:
        self._group.objects.pop((self._node, name), None)

    def ifetch(self, name: str, source: int) -> _Fetched:
        node = self.nodes[source]
        return _Fetched(lambda: self._fetch(node, name))

    @contextmanager
    def collective(self, what: str, *, numbers: int) -> Iterator[None]:
        end = self._number + numbers
        try:
            yield
            self._fail(end, f"{what} ended without this call")
        except (Died, RankFailed):
            raise  # as everybody knows
        except BaseException as error:
            self._fail(end, f"{what} failed: {type(error).__name__}: {error}")
            raise

    def alltoall(self, array: np.ndarray) -> np.ndarray:
        given = self._exchange(array)
        return np.stack([given[node][self.rank] for node in self.nodes])

    def allgather(self, array: np.ndarray) -> np.ndarray:
        given = self._exchange(array)
        return np.stack([given[node] for node in self.nodes])

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        given = self._exchange(array)
        total: np.ndarray = np.add.reduce([given[node] for node in self.nodes])
        return total

    def barrier(self) -> None:
        self._exchange(np.zeros(1))

    def broadcast(self, array: np.ndarray, root: int) -> np.ndarray:
        array[...] = self._exchange(array)[self.nodes[root]]
        return array

    def shrink(self) -> DyingCommunicator:
        with self._world.changed:
            self._group.shrinking.add(self._node)
            self._world.changed.notify_all()
            self._world.changed.wait_for(
                lambda: self._group.next or set(self._left()) <= self._group.shrinking, _TIMEOUT_S
            )
            self._group.next = self._group.next or self._left()
            self._world.changed.notify_all()
            return DyingCommunicator(self._world, self._world.group(self._group.next), self._node)

    def _fail(self, end: int, why: str) -> None:
        with self._world.changed:
            while self._number < end:
                call = self._group.calls.setdefault(self._number, _Call())
                call.failed[self._node] = why
                self._number += 1
            self._world.changed.notify_all()

    def _left(self) -> tuple[str, ...]:
        return tuple(node for node in self.nodes if node not in self._world.ended)

    def _fetch(self, source: str, name: str) -> np.ndarray:
        with self._world.changed:
            self._world.changed.wait_for(
                lambda: (source, name) in self._group.objects or self._failure(), _TIMEOUT_S
            )
            self._raise_failure()
            return self._group.objects[source, name]

    def _exchange(self, array: np.ndarray) -> dict[str, Any]:
        with self._world.changed:
            death = self._world.is_due(self._node)
            call = self._group.calls.setdefault(self._number, _Call())
            self._number += 1
            self._raise_failure()
            if death is None or death.speaks:
                call.given[self._node] = array.copy()
            self._world.changed.notify_all()
            if death is not None and death.speaks:
                call.dying.add(self._node)
                # The others' parts come before the end: those who hear the last words need all.
                speakers = len(self._world.ahead) if death.ahead else self.size
                self._world.changed.wait_for(
                    lambda: len(call.given) >= speakers or call.failed or self._failure(),
                    _TIMEOUT_S,
                )
            self._die_of(death)
            held = self._is_held()

            def is_complete() -> bool:
                all_dead = call.dying <= self._world.dead.keys()
                return len(call.given) == self.size and not held and all_dead

            self._world.changed.wait_for(
                lambda: is_complete() or call.failed or self._failure(), _TIMEOUT_S
            )
            for node, why in call.failed.items():
                rank = self.nodes.index(node)
                raise PeerError(f"rank {rank} ({node}): {why}", rank=rank)
            complete = len(call.given) == self.size and not held
            last_words = [self._world.dead[node] for node in self.nodes if node in self._world.dead]
            heard = all(self._node in death.heard_by for death in last_words)
            if not (complete and heard):
                self._raise_failure()
            return call.given

    def _is_held(self) -> bool:
        """Whether this call is the last one that ranks which die ahead of the others end."""
        ahead = self._world.ahead
        return self._node not in ahead and self._world.calls[self._node] in ahead.values()

    def _failure(self) -> str:
        return ", ".join(node for node in self.nodes if node in self._world.dead)

    def _raise_failure(self) -> None:
        if who := self._failure():
            raise RankFailed(f"{who} died")

    def _die_of(self, death: Death | None) -> None:
        if death is not None:
            self._world.dead[self._node] = death
            self._world.changed.notify_all()
            raise Died
