"""An operation ends at its own deadline, also one whose turn has not come."""

from __future__ import annotations

import re

import numpy as np
import pytest

from innet.collectives import Communicator
from innet.errors import DeadlineExceeded
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

IN_FLIGHT = 4
"""Operations of a group under way at once, by default."""


def test_a_queued_operation_ends_at_its_deadline_and_the_others_still_get_its_tensor():
    with Cluster(load_topology("star:3"), timeout_s=60) as cluster:
        first = cluster.communicators[0]
        under_way = [first.iallreduce(np.ones(4, np.float32)) for _ in range(IN_FLIGHT)]
        first.timeout_s = 1.0
        tensor = np.full(5, 7, np.float32)
        queued = first.iallreduce(tensor)
        with pytest.raises(DeadlineExceeded) as told:
            queued.wait()
        assert re.fullmatch(
            r"allreduce\(sum\.f32, shape \(5,\)\) seq=4: it was queued behind "
            r"seq=0: rank 1 \(h1\), rank 2 \(h2\) had not sent their data "
            r"within the timeout of 1 s "
            r"\(timeout_s=, in PyTorch timeout=, or the setting collectives\.timeout_s changes "
            r"it\)",
            str(told.value),
        )
        assert not any(work.done() for work in under_way)
        tensor[:] = -1  # ours again

        def catch_up(communicator: Communicator) -> float:
            if communicator is first:
                for work in under_way:
                    work.wait()
                return 0.0
            for _ in range(IN_FLIGHT):
                communicator.allreduce(np.ones(4, np.float32))
            return float(communicator.allreduce(np.full(5, 1, np.float32))[0])

        assert cluster.run(catch_up) == [0.0, 9.0, 9.0]
        # The group goes on.
        first.timeout_s = 60
        sums = cluster.run(lambda communicator: communicator.allreduce(np.ones(1, np.int64))[0])
        assert sums == [3, 3, 3]


def test_queued_operations_that_wait_for_an_absent_rank_end_together_and_name_it():
    with Cluster(load_topology("star:2"), timeout_s=0.5) as cluster:
        communicator = cluster.communicators[0]
        works = [communicator.iallreduce(np.ones(3, np.float32)) for _ in range(5 * IN_FLIGHT)]
        works[0].exception()
        for seq, work in enumerate(works):
            error = work.exception()
            assert isinstance(error, DeadlineExceeded)
            assert f"seq={seq}: " in str(error)
            assert "rank 1 (h1) had not sent its data" in str(error)


def test_all_ranks_name_the_stopped_rank_alone_in_the_same_words():
    """Also by those that give up after others have given up and left."""
    with Cluster(load_topology("star:4"), timeout_s=1.0) as cluster:
        cluster.end(rank=1)
        for member in cluster.members:
            member.halted.add("h1")
        first, _, *later = cluster.communicators
        told = [first.iallreduce(np.ones(3, np.float32)).exception()]
        cluster.end(rank=0)
        told += [other.iallreduce(np.ones(3, np.float32)).exception() for other in later]
        for error in told:
            assert isinstance(error, DeadlineExceeded)
            assert "seq=0: rank 1 (h1) did not answer (stopped, or cut off" in str(error)
            assert "rank 0" not in str(error)


def test_the_steps_of_one_call_share_its_deadline(monkeypatch):
    clock_s = [0.0]
    given_s = []
    with Cluster(load_topology("star:2"), timeout_s=20.0) as cluster:
        first, second = cluster.communicators
        runner = first._runner
        monkeypatch.setattr(runner.services, "now_s", lambda: clock_s[0])
        submit = runner._submit

        def noted(operation, seq, timeout_s, reserves, earlier_calls):
            given_s.append(timeout_s)
            clock_s[0] += 8.0
            return submit(operation, seq, timeout_s, reserves, earlier_calls)

        monkeypatch.setattr(runner, "_submit", noted)
        theirs = second.iallreduce_blocks(np.ones(100, np.float32))
        first.allreduce_blocks(np.ones(100, np.float32))
        theirs.wait()
    assert given_s == [20.0, 12.0]
