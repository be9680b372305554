"""Labels and error texts of other nodes: any bytes end an operation, and no process.

What is no label is dropped and counted. What cannot be read as text is replaced.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from innet._native import _core
from innet.ndn.wire import encode_data, parse_data
from innet.observe.packets.layers import (
    Content,
    Data,
    Fragment,
    Hold,
    LpPacket,
    MetaInfo,
    Name,
    SignatureInfo,
    SignatureType,
    SignatureValue,
    TensorError,
    data,
)
from innet.security.signers import Ed25519Signer
from innet.worker import Collector
from tests.attacks.outsider import Neighbour, NodeAmongStrangers
from tests.attacks.test_drafts import BLOCK, TENANT, join, started_fetch

BAD_LABELS = {
    "not UTF-8": b"\xff\xfe",
    "cut in a character": "rank é".encode()[:-1],
    "escape sequence": b"\x1b]0;owned\x07",
    "line break": b"3\nrank 4",
    "not ASCII": "é".encode(),
    "overlong": b"3" * 33,
    "empty": b"",
}
_ABORTED = 3
"""The value of a TensorError: its publisher gave the operation up."""


@pytest.fixture
def node() -> Iterator[NodeAmongStrangers]:
    """A node that fetches below ``/j`` from its only neighbour, who needs no key."""
    with NodeAmongStrangers(1, signature="digest") as made:
        made.node.add_route("/j", 0)
        yield made


class Worker:
    """Fetches by a collector, as a worker's process does."""

    def __init__(self, node: _core.Node) -> None:
        self._node = node
        self.collector = Collector(node)

    def fetch(self, seq: int, timeout_s: float) -> threading.Event:
        """Fetch the tensor ``seq``; the event tells that ``self.end`` is its end."""
        told = threading.Event()
        fetch = _core.FetchSpec(
            _core.Targets([("/j/g/1", "", False)]),
            _core.Name("/sum.f32"),
            seq,
            _core.Segmentation(1, 4, 4),
            0,
            1,
            1,
            np.zeros(4, np.uint8),
        )

        def ended(status: int, detail: str) -> None:
            self.end = (status, detail)
            told.set()

        self.collector.deliver(self._node.submit(None, [fetch], timeout_s=timeout_s), ended)
        return told


def hold(interest: bytes, label: bytes) -> LpPacket:
    return LpPacket(elements=[Hold(value=label), Fragment(elements=[interest])])


def tensor_error(name: str, text: bytes) -> Data:
    """Data that says why there is no tensor, signed by its digest."""
    signed = [
        Name(value=name),
        MetaInfo(elements=[TensorError(value=_ABORTED)]),
        Content(value=text),
        SignatureInfo(elements=[SignatureType(value=0)]),
    ]
    digest = hashlib.sha256(b"".join(map(bytes, signed))).digest()
    return Data(elements=[*signed, SignatureValue(value=digest)])


@pytest.mark.parametrize("label", BAD_LABELS.values(), ids=BAD_LABELS)
def test_an_invalid_label_is_dropped_and_operations_continue(node, label):
    (neighbour,) = node.neighbours
    worker = Worker(node.node)
    told = worker.fetch(0, timeout_s=2.0)
    _, interest = neighbour.receive("interest")
    neighbour.send(hold(interest, label))
    assert node.counted("malformed", neighbour) == 1
    assert told.wait(60), "the operation has no end"
    assert worker.end[0] == _core.STATUS_DEADLINE_EXCEEDED
    assert "rank" not in worker.end[1]
    works_as_before(worker, neighbour)
    worker.collector.close()


def works_as_before(worker: Worker, neighbour: Neighbour) -> None:
    """The next operation waits for what a label names, and gets its result."""
    told = worker.fetch(1, timeout_s=60.0)
    while True:
        outline, interest = neighbour.receive("interest")
        if "seq=1/" in outline.uri:
            break
    neighbour.send(hold(interest, b"3"), data(outline.uri, bytes(4), tensor_elements=1))
    assert told.wait(60), "the next operation has no end"
    assert worker.end == (_core.STATUS_DONE, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"gave up \xff\xfe", "gave up \ufffd\ufffd"),
        (b"too long " + "é".encode() * 2000, "too long " + "é" * 1019),
    ],
    ids=["not UTF-8", "cut"],
)
def test_an_error_ends_its_operation_for_any_bytes_of_its_text(node, text, shown):
    (neighbour,) = node.neighbours
    worker = Worker(node.node)
    told = worker.fetch(0, timeout_s=30.0)
    outline, _ = neighbour.receive("interest")
    neighbour.send(tensor_error(outline.uri, text))
    assert told.wait(60), "the operation has no end"
    assert worker.end == (_core.STATUS_ABORTED, shown)
    works_as_before(worker, neighbour)
    worker.collector.close()


def test_an_error_in_place_of_a_segment_ends_its_fetch_for_any_bytes_of_its_text():
    with NodeAmongStrangers(1) as member:
        join(member.node)
        member.node.add_route("/n/h1", 0)
        segment = bytes(tensor_error(f"{BLOCK}/seg=0", b"gave up \xff\xfe"))
        operation, buffer = started_fetch(member)
        (producer,) = member.neighbours
        producer.receive("interest")
        producer.send(signed_root(hashlib.sha256(segment).digest()))
        producer.receive("interest")
        producer.send(segment)
        assert member.node.wait(operation, 20.0) == (_core.STATUS_DONE, "")
        assert (buffer.status, buffer.detail) == (_core.STATUS_ABORTED, "gave up \ufffd\ufffd")


def signed_root(digests: bytes) -> bytes:
    """The root manifest of a block whose only segment has this digest."""
    [unsigned] = _core.build_manifests(_core.Name(BLOCK), digests, 1000, 1000)
    manifest = parse_data(unsigned)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(TENANT.key.secret))
    return encode_data(
        manifest.name,
        manifest.content,
        content_type=manifest.content_type,
        signer=Ed25519Signer(TENANT.key_name, key),
    )


@pytest.mark.parametrize("label", ["", "é", "3\x1b[2J", "3" * 33])
def test_a_node_registers_no_label_that_its_neighbours_drop(label):
    with NodeAmongStrangers(0) as made, pytest.raises(ValueError, match="invalid label"):
        made.node.register_producer("/j/g/1", label)
