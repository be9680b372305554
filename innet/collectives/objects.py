"""Objects: bytes under a name of their own, signed once, kept until they are withdrawn.

The names of rank r's objects are ``<group>/obj/<r>/<path>``. A consumer first fetches the root
manifest, which rank r's Ed25519 key must have signed, and then everything else by names that end
with the digest of their content. So caches and aggregated Interests on the way serve many ranks at
the cost of one, and can serve nothing but what rank r published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.arrays import Array, Output, as_input, byte_view, copied_type, landing_bytes
from innet.collectives.completion import Completion, error_of
from innet.collectives.offered_objects import AwaitedObject, OfferedObjects
from innet.collectives.runner import OperationRunner
from innet.collectives.work import NodeWork, Work, timeout_or
from innet.errors import CollectiveError, InnetError, RankFailed, SecurityError, TransportError
from innet.security import node_certificate_name

T = TypeVar("T")

PACKET_OVERHEAD_BYTES = 128
"""Overhead of a packet with a full segment; packets of objects have no more."""

ObjectData = Array | bytes | bytearray | memoryview
"""Publishable data: an array, or any object with the buffer protocol."""


class Objects:
    """The objects of one communicator; the calls are documented there."""

    def __init__(self, runner: OperationRunner) -> None:
        variant = runner.variants.first
        self._runner = runner
        self._node = runner.node
        self._key = runner.services.object_key
        self._prefix = f"{variant.prefix}/obj"
        self._job = variant.prefix.split("/")[1]
        self._packet_bytes = runner.services.object_segment_bytes + PACKET_OVERHEAD_BYTES
        self._own = _core.Name(f"{self._prefix}/{runner.rank}")
        self._node.register_objects(self._own, runner.label)
        self._offered = OfferedObjects(runner)

    def publish(self, name: str, data: ObjectData) -> Work[None]:
        """Start to offer ``data``."""
        self._runner.require_open()
        contents = _bytes_of(data)
        what = f"publish({name!r}, {contents.size} bytes)"
        operation = self._node.publish_object(
            self._name(self._runner.rank, name), contents, self._key, self._packet_bytes
        )
        self._offered.add(quoted_path(name))
        return self._work(operation, what, lambda: None)

    def withdraw(self, name: str) -> None:
        """Stop offering an object; nothing happens when it was not offered."""
        self._runner.require_open()
        named = self._name(self._runner.rank, name)
        self._offered.discard(quoted_path(name))
        self._node.withdraw_object(named)
        self._node.object_root(named)  # returns once the node has carried out the withdrawal

    def fetch(
        self, name: str, source: int, out: Array | None, timeout_s: float | None
    ) -> Work[Array]:
        """Start to fetch an object of rank ``source``."""
        self._runner.require_member(source)
        output = None if out is None else Output(out)
        limit_s = timeout_or(timeout_s, self._runner.timeout_s)
        node = self._runner.nodes[source]
        buffer = _core.ObjectBuffer()
        if output is not None:
            buffer = _core.ObjectBuffer(landing_bytes(output.memory))
        operation = self._node.fetch_object(
            self._name(source, name),
            _core.Name(f"/n/{node}"),
            _core.Name(node_certificate_name(node, self._job)),
            buffer,
            limit_s,
        )
        finish = buffer.array if output is None else output.finish
        awaited = AwaitedObject(operation, source, quoted_path(name), limit_s)
        work = self._work(operation, f"fetch({name!r}, source={source})", finish, awaited)
        self._offered.follow(awaited, work)
        return work

    def refuse(self, why: str) -> None:
        """Offer no more objects; fetches of others end with an error that says why."""
        self._offered.end(why)

    def close(self) -> None:
        """Withdraw all objects of this rank."""
        self._node.unregister_objects(self._own)
        self._offered.close()

    def _name(self, rank: int, name: str) -> _core.Name:
        return _core.Name(f"{self._prefix}/{rank}/{quoted_path(name)}")

    def _work(
        self,
        operation: int,
        what: str,
        finish: Callable[[], T],
        awaited: AwaitedObject | None = None,
    ) -> Work[T]:
        runner = self._runner
        if runner.trace is not None:
            runner.trace.begin(operation, what, "object")

        def complete(completion: Completion) -> T:
            if completion.status == _core.STATUS_DONE:
                return finish()
            if awaited is not None and awaited.refusal:
                raise RankFailed(f"{what}: {awaited.refusal}", rank=awaited.source)
            raise self._error(completion, what)

        return NodeWork(operation, runner.collector, complete, runner.follow(what))

    def _error(self, completion: Completion, what: str) -> InnetError:
        """The error of a publication or a fetch.

        A failed rank, a deadline, a size that does not fit and a cancellation are the errors that
        collectives have for them.
        """
        status, failure = completion.status, self._runner.membership.failure
        text = f"{what}: {completion.detail}"
        if status == _core.STATUS_UNTRUSTED:
            return SecurityError(
                f"{text}. The object was refused; does another program publish under its name?"
            )
        if status == _core.STATUS_NO_ROUTE or (status == _core.STATUS_ABORTED and failure is None):
            return TransportError(text)
        return error_of(completion, what, failure=failure)


def _bytes_of(data: ObjectData) -> npt.NDArray[np.uint8]:
    if not isinstance(data, np.ndarray):
        try:
            return np.frombuffer(data, np.uint8)
        except (TypeError, ValueError) as error:
            raise CollectiveError(
                f"an object of type {type(data).__name__} cannot be published: {error}. Publish a "
                "NumPy array or bytes, such as json.dumps(value).encode() or pickle.dumps(value)."
            ) from error
    copied_type(data)
    return byte_view(as_input(data))


def quoted_path(name: str) -> str:
    """A name that a person gave, as components of a packet's name.

    Raises:
        CollectiveError: it is not text, or a component is empty or nothing but periods.
    """
    if not isinstance(name, str):
        raise CollectiveError(f"{name!r} is not a name: a name is a str, such as 'model/layer1'")
    parts = name.split("/")
    if not all(part.strip(".") for part in parts):
        raise CollectiveError(
            f"{name!r} names nothing: write components of at least one character other than a "
            "period, separated by single slashes, such as 'model/layer1'"
        )
    return "/".join(quote(part, safe="") for part in parts)
