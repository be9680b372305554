"""A process that goes on for long keeps nothing of operations and groups that have ended."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

from innet._native import _core
from innet.collectives import Communicator
from innet.collectives.point_to_point import MESSAGES_IN_FLIGHT, _Incoming
from innet.plans import Placed
from innet.topology import load_topology
from tests.collectives.cluster import Cluster


def test_buffers_of_operations_without_waiters_are_freed():
    with Cluster(load_topology("star:2")) as cluster:

        def forget_many(communicator: Communicator) -> int:
            tensors = []
            for _ in range(500):
                tensor = np.ones(256, np.float32)
                tensors.append(weakref.ref(tensor))
                communicator.iallreduce(tensor)
            del tensor
            # Ends after them; the node lets the buffers go with the next call.
            communicator.barrier()
            communicator.barrier()
            return sum(tensor() is not None for tensor in tensors)

        assert cluster.run(forget_many) == [0, 0]


def test_a_communicator_can_be_closed_as_soon_as_it_is_registered(monkeypatch):
    with Cluster(load_topology("star:2")) as cluster:
        ended = []
        for member in cluster.members:

            def end(close: Any) -> None:
                close()
                close.__self__._membership.release()
                ended.append(close.__self__.rank)

            monkeypatch.setattr(member, "before_close", end)
        cluster.group("g1", cluster.plan.ranks, cluster.plan)
        assert ended == [0, 1]


def test_nodes_keep_no_state_of_closed_groups():
    with Cluster(load_topology("star:2")) as cluster:

        def sizes() -> list[int]:
            found = []
            for name in cluster.nodes:
                status = cluster.status(name)
                found += [
                    status["endpoint"]["flows"],
                    status["endpoint"]["retained_bytes"],
                    max(2, status["reducer"]["flows"]),  # of both ranks, whoever called first
                    status["node"]["cache_entries"],
                    status["reducer"]["slots_in_use"],
                    len(status["rules"]),
                    len(status["operations"]),
                ]
            return found

        def names_of_sums() -> int:
            gc.collect()
            return sum(isinstance(it, _core.Targets | Placed) for it in gc.get_objects())

        def live_and_end(number: int) -> None:
            name = f"g{number}"
            group = cluster.group(name, cluster.plan.ranks, "inc")
            works = [member.iallreduce(np.ones(4, np.float32)) for member in group]
            for work in works:
                assert work.wait()[0] == 2
            for member in group:
                member._release()
            for node in cluster.nodes.values():
                node.remove_group(f"/j/{name}")

        live_and_end(1)
        after_one = sizes()
        names_after_one = names_of_sums()
        for number in range(2, 100):
            live_and_end(number)
        assert sizes() == after_one
        assert names_of_sums() == names_after_one


def test_each_new_tag_costs_one_stored_number():
    with Cluster(load_topology("star:2")) as cluster:

        def exchange(communicator: Communicator) -> list[int]:
            tensor = np.ones(4, np.float32)
            for tag in range(300):
                if communicator.rank == 0:
                    communicator.send(tensor, to=1, tag=tag)
                else:
                    communicator.recv(tensor, source=0, tag=tag)
            for _ in range(20):  # meanwhile the last receipts come
                communicator.barrier()
            messages = communicator._messages._point_to_point
            return [len(messages._channels), len(messages._next_sent)]

        sender, receiver = cluster.run(exchange)
        assert sender == [0, 300]
        assert receiver == [0, 0]


def confirm(incoming: _Incoming, tag: int, seq: int, now_s: float) -> list[tuple[int, int]]:
    """Receive the tag's next message, whose number is ``seq``."""
    assert incoming.take(tag) == seq
    return incoming.confirm(tag, seq, now_s)


def test_receipts_of_an_unused_tag_are_dropped():
    incoming = _Incoming()
    gone = [confirm(incoming, tag, 0, now_s=0.0) for tag in range(1000)]
    assert not any(gone)
    assert not confirm(incoming, 1000, 0, now_s=9.9)
    useless = confirm(incoming, 0, 1, now_s=10.0)
    assert (1, 0) in useless
    assert (0, 1) not in useless
    assert (1000, 0) not in useless
    assert len(useless) == 1000 + 1 - 256


def test_receipts_of_a_busy_tag_are_dropped_once_their_sender_has_them():
    incoming = _Incoming()
    gone = [confirm(incoming, 7, seq, now_s=0.0) for seq in range(MESSAGES_IN_FLIGHT + 2)]
    assert [useless for useless in gone if useless] == [[(7, 0)], [(7, 1)]]


def test_a_returned_sequence_number_is_used_next():
    incoming = _Incoming()
    assert [incoming.take(7) for _ in range(4)] == [0, 1, 2, 3]
    incoming.give_back(7, 2)
    incoming.give_back(7, 0)
    assert [incoming.take(7) for _ in range(3)] == [0, 2, 4]


def test_receives_without_a_message_leave_no_state_of_their_tag():
    incoming = _Incoming()
    for tag in range(100):
        numbers = [incoming.take(tag) for _ in range(3)]
        for seq in (numbers[1], numbers[0], numbers[2]):
            incoming.give_back(tag, seq)
    assert not incoming._next
    assert not incoming._open
    assert not incoming._given_back


def test_receipts_stay_while_an_earlier_message_of_their_tag_has_none():
    incoming = _Incoming()
    assert [incoming.take(7) for _ in range(2)] == [0, 1]
    incoming.give_back(7, 0)
    incoming.confirm(7, 1, now_s=0.0)
    gone = [useless for tag in range(8, 400) for useless in confirm(incoming, tag, 0, 100.0)]
    assert gone == []
    confirm(incoming, 7, 0, now_s=100.0)
    later = [useless for tag in range(400, 800) for useless in confirm(incoming, tag, 0, 200.0)]
    assert (7, 1) in later
