"""Objects: bytes under a name of their own, signed once, kept until they are withdrawn.

Rank r's objects stand under ``<group>/obj/<r>/<path>``. Whoever fetches one first gets its root
manifest, which rank r's Ed25519 key must have signed, and then asks for everything else by names
that end with the digest of what they stand for. So caches and aggregated Interests on the way serve
many ranks at the cost of one, and can serve nothing but what rank r published.
"""

from __future__ import annotations

from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from innet._native import _core
from innet.collectives.arrays import Array, as_input, byte_view, copied_type
from innet.collectives.failures import error_of
from innet.collectives.group import Variant
from innet.errors import CollectiveError, InnetError, SecurityError, TransportError
from innet.node.control.protocol import Failure
from innet.security import node_certificate_name

PACKET_OVERHEAD_BYTES = 128
"""What a packet with a full segment of a tensor has beside it: packets of objects are no larger."""

ObjectData = Array | bytes | bytearray | memoryview
"""What can be published: an array, or anything that shows its bytes."""


class Objects:
    """``publish`` and ``fetch`` of one communicator."""

    def __init__(
        self,
        node: _core.NodeHandle,
        key: _core.SigningKey,
        variant: Variant,
        rank: int,
        segment_bytes: int,
    ) -> None:
        self._node = node
        self._key = key
        self._prefix = f"{variant.prefix}/obj"
        self._job = variant.prefix.split("/")[1]
        self._nodes = variant.nodes
        self._rank = rank
        self._packet_bytes = segment_bytes + PACKET_OVERHEAD_BYTES
        self._own = _core.Name(f"{self._prefix}/{rank}")
        node.register_objects(self._own, str(rank))

    def publish(self, name: str, data: ObjectData) -> tuple[int, str]:
        """Offer ``data``; the operation's number, and what it is for people."""
        contents = _bytes_of(data)
        what = f"publish({name!r}, {contents.size} bytes)"
        operation = self._node.publish_object(
            self._name(self._rank, name), contents, self._key, self._packet_bytes
        )
        return operation, what

    def withdraw(self, name: str) -> None:
        """Offer an object no longer; nothing happens when it was not offered."""
        named = self._name(self._rank, name)
        self._node.withdraw_object(named)
        self._node.object_root(named)  # waits until the node has done what it was told before

    def fetch(
        self, name: str, source: int, into: Array | None, timeout_s: float
    ) -> tuple[int, str, _core.ObjectBuffer]:
        """Fetch an object of rank ``source`` into ``into``, or into memory that is made for it."""
        node = self._nodes[source]
        buffer = _core.ObjectBuffer() if into is None else _core.ObjectBuffer(byte_view(into))
        operation = self._node.fetch_object(
            self._name(source, name),
            _core.Name(f"/n/{node}"),
            _core.Name(node_certificate_name(node, self._job)),
            buffer,
            timeout_s,
        )
        return operation, f"fetch({name!r}, source={source})", buffer

    def close(self) -> None:
        """Withdraw all objects of this rank."""
        self._node.unregister_objects(self._own)

    def _name(self, rank: int, name: str) -> _core.Name:
        return _core.Name(f"{self._prefix}/{rank}/{quoted_path(name)}")


def error_of_object(
    status: int, detail: str, what: str, failure: Failure | None
) -> InnetError | None:
    """The error of a publication or a fetch that ended with ``status``; ``None`` when it went well.

    A failed rank, a deadline, a size that does not fit and a cancellation are the errors that
    collectives have for them.
    """
    text = f"{what}: {detail}"
    if status == _core.STATUS_UNTRUSTED:
        return SecurityError(f"{text}. It was not taken; is somebody else publishing in its place?")
    if status == _core.STATUS_NO_ROUTE or (status == _core.STATUS_ABORTED and failure is None):
        return TransportError(text)
    return error_of(status, text, what, None, failure)


def _bytes_of(data: ObjectData) -> npt.NDArray[np.uint8]:
    if not isinstance(data, np.ndarray):
        try:
            return np.frombuffer(data, np.uint8)
        except (TypeError, ValueError) as error:
            raise CollectiveError(
                f"a {type(data).__name__} cannot be published: {error}. Publish a NumPy array or "
                "bytes, such as json.dumps(value).encode() or pickle.dumps(value)."
            ) from error
    copied_type(data)
    return byte_view(as_input(data))


def quoted_path(name: str) -> str:
    """A name that a person gave, as components of a packet's name.

    Raises:
        CollectiveError: a component is empty, or nothing but periods.
    """
    parts = name.split("/")
    if not all(part.strip(".") for part in parts):
        raise CollectiveError(
            f"{name!r} names nothing: write components of at least one character other than a "
            "period, separated by single slashes, such as 'model/layer1'"
        )
    return "/".join(quote(part, safe="") for part in parts)
