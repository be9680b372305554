"""What an owner and an asker of arrays do when a transfer between them fails."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from innet._native import _core
from innet.collectives.one_sided.array_server import ArrayServer
from innet.collectives.one_sided.requests import REQUESTS_IN_FLIGHT, decode_reply
from innet.collectives.transfers import PeerFetch
from innet.errors import CollectiveError
from innet.topology import load_topology
from innet.worker.background import BackgroundThread
from tests.collectives.cluster import Cluster


class Transfers:
    """Stands in for the network: a test ends the owner's fetches by hand."""

    def __init__(self) -> None:
        self.fetched: queue.Queue[tuple[int, Any]] = queue.Queue()
        self.published: queue.Queue[tuple[int, Any]] = queue.Queue()

    def fetch(self, fetch: PeerFetch, ended: Any) -> int:
        self.fetched.put((fetch.seq, ended))
        return fetch.seq

    def publish(self, _kind: str, seq: int, content: Any, _what: str, *, kept: int) -> None:
        self.published.put((seq, content))

    def cancel(self, _operation: int) -> None:
        pass


@pytest.fixture
def transfers() -> Iterator[Transfers]:
    made = Transfers()
    background = BackgroundThread("arrays")
    server = ArrayServer(made, 1, 0, background, time.monotonic)  # type: ignore[arg-type]
    array: Any = SimpleNamespace(name="weights", expire=lambda _now_s: math.inf)
    server.add(array)
    yield made
    server.close()


def test_an_owner_requests_again_from_a_rank_that_was_unreachable(transfers: Transfers) -> None:
    for _ in range(3):
        number, ended = transfers.fetched.get(timeout=240)
        assert number == 0
        ended(_core.STATUS_NO_ROUTE, "refused")


def test_an_owner_refuses_malformed_requests_and_continues(transfers: Transfers) -> None:
    _, ended = transfers.fetched.get(timeout=240)
    ended(_core.STATUS_MISMATCH, "9 bytes")
    assert transfers.fetched.get(timeout=240)[0] == 1
    number, reply = transfers.published.get(timeout=240)
    assert number == 0
    assert "not a request: 9 bytes" in str(decode_reply(reply))


def test_puts_that_cannot_be_published_block_no_later_request(monkeypatch) -> None:
    with Cluster(load_topology("star:2")) as cluster:
        owner, other = cluster.communicators
        owner.register("weights", np.zeros(4))
        transfers = other._array_transfers
        publish = transfers.publish

        def refuse_puts(kind: str, *arguments: Any, **options: Any) -> None:
            if kind.startswith("/put/"):
                raise CollectiveError("cannot be published")
            publish(kind, *arguments, **options)

        monkeypatch.setattr(transfers, "publish", refuse_puts)
        for _ in range(REQUESTS_IN_FLIGHT + 1):
            with pytest.raises(CollectiveError, match="cannot be published"):
                other.put("weights", 0, np.ones(4))
            other.get("weights", 0)
        monkeypatch.undo()
        assert other.put("weights", 0, np.ones(4)) == 1
