"""The calls of a communicator for objects: bytes under a name of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from innet.collectives.arrays import Array, Output
from innet.collectives.objects import ObjectData, Objects
from innet.collectives.timeouts import timeout_or
from innet.collectives.work import Work

T = TypeVar("T")


class FollowObject(Protocol):
    """Makes a work of an operation on an object."""

    def __call__(self, operation: int, what: str, finish: Callable[[], T]) -> Work[T]:
        """The operation under way; ``what`` names it for people."""


class ObjectCalls:
    """Ranks offer objects and fetch each other's. None of these is a collective."""

    timeout_s: float

    def __init__(
        self, objects: Objects, check_rank: Callable[[int], None], follow: FollowObject
    ) -> None:
        self._objects = objects
        self._check_source = check_rank
        self._follow_object = follow

    def ipublish(self, name: str, data: ObjectData) -> Work[None]:
        """Start a :meth:`publish`; ``data`` must stay as it is until the end."""
        self._check_source(0)
        return self._follow_object(*self._objects.publish(name, data), lambda: None)

    def publish(self, name: str, data: ObjectData) -> None:
        """Offer ``data`` (a model, a KV block) to all ranks, under ``name``.

        It is copied and signed once (a manifest with one Ed25519 signature and the digests of its
        segments), in a time proportional to its size, and stays until :meth:`withdraw` or
        :meth:`close`. It can be fetched when this returns; ``data`` may then be changed.

        Args:
            name: a path such as ``model/step-100``. A name stands for one value: caches may keep
                what it stood for, so give another value another name.
            data: an array of any type without Python objects, or anything that shows its bytes.

        Raises:
            TransportError: the name is published already, or too long for the links' packets.

        Example::

            if comm.rank == 0:
                comm.publish("model", weights)
            else:
                weights = comm.fetch("model", source=0, out=weights)
        """
        self.ipublish(name, data).wait_or_cancel()

    def withdraw(self, name: str) -> None:
        """Offer an object no longer; nothing happens when this rank did not offer it.

        Fetches under way may fail, and caches may still serve what they hold.
        """
        self._check_source(0)
        self._objects.withdraw(name)

    def ifetch(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Work[Array]:
        """Start a :meth:`fetch`."""
        self._check_source(source)
        output = None if out is None else Output(out)
        into = None if output is None else output.memory
        operation, what, buffer = self._objects.fetch(
            name, source, into, timeout_or(timeout_s, self.timeout_s)
        )
        finish = buffer.array if output is None else output.finish
        return self._follow_object(operation, what, finish)

    def fetch(
        self,
        name: str,
        source: int,
        out: Array | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Array:
        """The object ``name`` of rank ``source``, verified; waits until it is published.

        It lands in ``out``, whose bytes must be as many, else in a new array of bytes
        (``result.view(dtype)`` gives it a type). Any number of ranks may fetch it at once: what
        they ask for in common crosses each link about once. This is no collective.

        Args:
            timeout_s: deadline; by default that of the communicator's operations.

        Raises:
            DeadlineExceeded: the object was not published, or did not come in time.
            SecurityError: what is published is not signed by the key of rank ``source``.
            MismatchError: the object and ``out`` differ in size.
            TransportError: the source's node does not answer for it, or there is no memory for it.
            RankFailed: a rank is gone.
        """
        return self.ifetch(name, source, out, timeout_s=timeout_s).wait_or_cancel()
