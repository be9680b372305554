"""Messages whose receipts are reordered or lost, whose receive timed out, or that wait for room."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from innet.collectives import Communicator, point_to_point
from innet.collectives.point_to_point import MESSAGES_IN_FLIGHT
from innet.errors import Cancelled, DeadlineExceeded, RankFailed
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

TAG = 7
FIRST_NUMBER = b"\x3a\x01\x00"
"""The component ``seq=0``."""


def channel_to_1(sender: Communicator) -> point_to_point._Channel | None:
    return sender._messages._point_to_point._channels.get((1, TAG))


def poll(condition: Callable[[], bool]) -> bool:
    """Whether the condition is met within 20 s."""
    end_s = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True


def test_a_message_is_confirmed_after_later_receipts_of_its_tag_were_dropped(monkeypatch):
    monkeypatch.setattr(point_to_point, "_MOST_IDLE_TAGS", 0)
    monkeypatch.setattr(point_to_point, "_RECEIPTS_KEPT_S", 0.0)
    with Cluster(load_topology("star:2")) as cluster:
        sender, receiver = cluster.communicators
        early = receiver.irecv(np.zeros(1), source=0, tag=TAG, timeout_s=0.05)
        later = receiver.irecv(np.zeros(1), source=0, tag=TAG)
        with pytest.raises(DeadlineExceeded):
            early.wait()
        for number in range(2):
            sender.send(np.full(1, float(number)), to=1, tag=TAG)
        assert later.wait()[0] == 1
        for other in (TAG + 1, TAG + 2):  # receipts of tags that are not used go
            sender.send(np.zeros(1), to=1, tag=other)
            receiver.recv(np.zeros(1), source=0, tag=other)
        assert receiver.recv(np.zeros(1), source=0, tag=TAG)[0] == 0
        assert poll(lambda: channel_to_1(sender) is None)


def test_a_lost_receipt_is_sent_again_when_the_sender_repeats_its_request():
    loses = True

    def lose_first_receipt(datagram: bytes) -> Sequence[bytes]:
        is_lost = loses and b"receipt" in datagram and FIRST_NUMBER in datagram
        return [] if is_lost else [datagram]

    count = MESSAGES_IN_FLIGHT + 6
    with Cluster(load_topology("star:2"), tamper={("h0", "s0"): lose_first_receipt}) as cluster:
        sender, receiver = cluster.communicators
        receives = [receiver.irecv(np.zeros(1), source=0, tag=TAG) for _ in range(count)]
        sends = [sender.isend(np.full(1, float(n)), to=1, tag=TAG) for n in range(count)]
        for receive in receives[:MESSAGES_IN_FLIGHT]:
            receive.wait()
        channel = channel_to_1(sender)
        assert channel is not None
        first = set(range(MESSAGES_IN_FLIGHT))
        assert poll(lambda: channel.unconfirmed & first == {0})
        assert channel.next_seq == MESSAGES_IN_FLIGHT
        loses = False
        for send in sends:
            send.wait()
        for receive in receives:
            receive.wait()
        assert poll(lambda: channel_to_1(sender) is None)


def test_waiting_sends_fail_at_once_when_a_rank_fails() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        comm = cluster.communicators[0]
        works = [comm.isend(np.zeros(1), 1) for _ in range(2 * MESSAGES_IN_FLIGHT + 2)]
        cluster.fail(comm, "rank 1 (h1) was killed", 1)
        for work in works[MESSAGES_IN_FLIGHT:]:
            with pytest.raises(RankFailed, match="was killed"):
                work.wait(30)


def test_the_receive_after_a_cancelled_one_gets_its_message() -> None:
    with Cluster(load_topology("star:2")) as cluster:
        sender, receiver = cluster.communicators
        late = receiver.irecv(np.zeros(1), 0, timeout_s=0.05)
        cancelled = receiver.irecv(np.zeros(1), 0)
        patient = receiver.irecv(np.zeros(1), 0)
        with pytest.raises(DeadlineExceeded):
            late.wait()
        cancelled.cancel()
        with pytest.raises(Cancelled):
            cancelled.wait()
        for number in range(4):
            sender.send(np.full(1, number, float), 1)
        assert patient.wait()[0] == 2  # it was the third to ask
        assert [receiver.recv(np.zeros(1), 0)[0] for _ in range(3)] == [0, 1, 3]
