"""Receiving from any rank: which message goes to whom, and what a question's end means."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from innet._native import _core
from innet.collectives import Communicator, messages
from innet.collectives.arrays import Array
from innet.collectives.completion import Completion
from innet.collectives.messages import AnySource, Receive
from innet.collectives.runner import OperationRunner
from innet.collectives.work import Deadline, Promise
from innet.errors import CollectiveError
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

FOREVER_S = 1e6
TAG = 5


class Network:
    """Questions to ranks 1 and 2, which a test answers by hand."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, Array]] = []  # whom, which message, where it goes
        self.confirmed: list[tuple[int, int]] = []
        self.given_back: list[tuple[int, int, int]] = []  # whose, under which tag, which number
        self.cancelled: list[int] = []
        self._numbers = {1: 0, 2: 0}
        self._callbacks: list[Callable[[int, str], None]] = []
        self.receives = AnySource(self.runner(3), self)  # type: ignore[arg-type]

    def runner(self, size: int) -> OperationRunner:
        """That of rank 0 of ``size``."""
        parts = SimpleNamespace(node=self, collector=self, size=size, rank=0)
        return cast(OperationRunner, parts)

    def post(
        self,
        source: int | None = None,
        elements: int = 1,
        timeout_s: float = FOREVER_S,
        tag: int = TAG,
    ):
        return self.receives.post(np.zeros(elements), source, tag, timeout_s, make_work)

    def answer(self, source: int, value: float = 0.0, status: int = _core.STATUS_DONE) -> None:
        """End the last question to ``source``."""
        place = max(n for n, (asked, _, _) in enumerate(self.asked) if asked == source)
        self.asked[place][2][:] = value
        self._callbacks[place](status, "as the test says")

    # What the class asks of the messages, the collector and the node.

    def next_incoming(self, source: int, tag: int) -> int:
        self._numbers[source] += 1
        return self._numbers[source] - 1

    def give_back(self, source: int, tag: int, seq: int) -> None:
        self.given_back.append((source, tag, seq))

    def fetch(self, memory: Array, source: int, tag: int, seq: int, timeout_s: float) -> int:
        self.asked.append((source, seq, memory))
        return len(self.asked) - 1

    def confirm(self, source: int, tag: int, seq: int) -> None:
        self.confirmed.append((source, seq))

    def deliver(self, operation: int, callback: Callable[[int, str], None]) -> None:
        assert operation == len(self._callbacks)
        self._callbacks.append(callback)

    def cancel(self, operation: int) -> None:
        """Nothing answers what was given up."""
        self.cancelled.append(operation)


def make_work(_receive: Receive, deadline: Deadline) -> Promise[Completion]:
    return Promise(lambda completion: completion, deadline=deadline)


@pytest.fixture
def network() -> Network:
    return Network()


def status_of(receive: Receive) -> int | None:
    return receive.work.wait().status if receive.work.done() else None


def test_a_pending_request_serves_the_next_receive(network: Network) -> None:
    first = network.post()
    network.answer(1, 10.0)
    assert (status_of(first), first.sender, first.memory[0]) == (_core.STATUS_DONE, 1, 10.0)
    network.answer(2, 20.0)  # before any request
    second = network.post()
    assert (status_of(second), second.sender, second.memory[0]) == (_core.STATUS_DONE, 2, 20.0)
    assert network.confirmed == [(1, 0), (2, 0)]


def test_an_old_request_that_times_out_does_not_end_a_newer_receive(network: Network) -> None:
    network.post()
    network.answer(1)
    young = network.post()
    network.answer(2, status=_core.STATUS_DEADLINE_EXCEEDED)
    assert status_of(young) is None
    network.answer(2, 7.0)
    assert (status_of(young), young.sender) == (_core.STATUS_DONE, 2)


def test_a_receive_ends_at_its_own_deadline(network: Network) -> None:
    late = network.post(timeout_s=0.0)
    network.answer(1, status=_core.STATUS_DEADLINE_EXCEEDED)
    assert status_of(late) == _core.STATUS_DEADLINE_EXCEEDED


def test_receives_are_served_in_order_and_only_by_the_sources_they_name(network: Network) -> None:
    anyone, from_two, from_one = network.post(), network.post(2), network.post(1)
    network.answer(1, 1.0)
    assert anyone.sender == 1
    network.answer(1, 2.0)
    assert from_one.sender == 1
    assert status_of(from_two) is None
    network.answer(2, 3.0)
    assert from_two.memory[0] == 3.0
    assert network.confirmed == [(1, 0), (1, 1), (2, 0)]


def test_a_message_of_another_size_is_requested_again(network: Network) -> None:
    network.post()
    network.answer(1)
    network.answer(2, 5.0)
    larger = network.post(2, elements=3)
    assert status_of(larger) is None
    network.answer(2, 6.0)
    assert larger.memory.tolist() == [6.0] * 3
    assert [seq for source, seq, _ in network.asked if source == 2] == [0, 0]


def test_a_cancelled_receive_takes_no_message(network: Network) -> None:
    abandoned = network.post()
    abandoned.work.cancel()
    network.answer(1, 4.0)
    assert status_of(abandoned) == _core.STATUS_CANCELLED
    assert network.post().memory[0] == 4.0


def test_the_failure_of_the_group_ends_every_receive(network: Network) -> None:
    anyone, from_one, from_two, another = (network.post(rank) for rank in (None, 1, 2, None))
    network.answer(1, status=_core.STATUS_ABORTED)
    network.answer(2, status=_core.STATUS_ABORTED)
    for receive in (anyone, from_one, from_two, another):
        assert status_of(receive) == _core.STATUS_ABORTED
    assert len(network.asked) == 2  # ranks that cannot answer receive no request


def test_a_single_rank_cannot_receive_from_any(network: Network) -> None:
    alone = AnySource(network.runner(1), network)  # type: ignore[arg-type]
    with pytest.raises(CollectiveError, match="group of one rank"):
        alone.post(np.zeros(1), None, TAG, FOREVER_S, make_work)


def test_a_short_deadline_holds_while_an_older_request_is_pending(network: Network) -> None:
    network.post()
    young = network.post(timeout_s=0.01)
    assert young.work.wait() == (
        _core.STATUS_DEADLINE_EXCEEDED,
        "no rank sent one within 0.01 s",
        None,
    )


def test_a_message_goes_to_the_first_receive_that_has_not_ended(network: Network) -> None:
    late = network.post(timeout_s=1e-9)
    patient = network.post()
    assert status_of(late) == _core.STATUS_DEADLINE_EXCEEDED
    network.answer(2, 20.0)
    assert (status_of(patient), patient.memory[0]) == (_core.STATUS_DONE, 20.0)
    assert network.confirmed == [(2, 0)]


def test_an_unused_tag_keeps_no_requests(network):
    first = network.post()
    network.answer(1, 4.0)
    assert status_of(first) == _core.STATUS_DONE
    assert network.receives.has_tag(TAG)
    waiting = network.post(tag=TAG + 1)
    for tag in range(TAG + 2, TAG + 200):
        receive = network.post(tag=tag)
        network.answer(2)
        assert status_of(receive) == _core.STATUS_DONE
    assert not network.receives.has_tag(TAG)
    assert (2, TAG, 0) in network.given_back
    assert network.asked[1][0] == 2
    assert 1 in network.cancelled
    assert network.receives.has_tag(TAG + 1)
    assert status_of(waiting) is None


@pytest.mark.parametrize("seed", range(3))
def test_messages_keep_their_order_whichever_tags_keep_requests(monkeypatch, seed):
    monkeypatch.setattr(messages, "_MOST_TAGS", 2)
    chosen = random.Random(seed)
    sent = [(source, chosen.randrange(6)) for source in (1, 2) for _ in range(60)]
    left = Counter(sent)

    def program(communicator: Communicator) -> None:
        count: Counter[tuple[int, int]] = Counter()
        value = np.zeros(1)
        for source, tag in sent:
            if source == communicator.rank:
                communicator.send(np.full(1, float(count[source, tag])), to=0, tag=tag)
                count[source, tag] += 1
        communicator.barrier()
        while communicator.rank == 0 and left.total():
            source, tag = chosen.choice(sorted(left.elements()))
            if chosen.random() < 0.5:
                source = communicator.recv_any(value, tag=tag)
            else:
                communicator.recv(value, source=source, tag=tag)
            assert value[0] == count[source, tag]
            count[source, tag] += 1
            left[source, tag] -= 1

    with Cluster(load_topology("star:3")) as cluster:
        cluster.run(program)
