"""What is done with groups rather than with tensors."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch
from torch.distributed import AllreduceOptions

from innet.errors import Cancelled, DeadlineExceeded
from innet.topology import load_topology
from innet.torch_backend.process_group import InnetProcessGroup
from tests.collectives.cluster import Cluster
from tests.torch_backend.ranks import opened_ranks

pytestmark = pytest.mark.torch


def test_no_method_collides_with_pytorchs_group_creation() -> None:
    assert not hasattr(InnetProcessGroup, "new_group")


@pytest.mark.parametrize("wait_all_ranks", [False, True])
def test_a_monitored_barrier_names_absent_ranks_on_all_ranks(wait_all_ranks: bool) -> None:
    barrier_ended = threading.Barrier(2)

    def program(group: InnetProcessGroup) -> str:
        group.monitored_barrier(timedelta(seconds=20))
        if group.rank() in (1, 3):
            if group.rank() == 3:
                barrier_ended.wait(60)
            if group.rank() == 1:
                return ""
        with pytest.raises(DeadlineExceeded) as caught:
            group.monitored_barrier(timedelta(seconds=1), wait_all_ranks=wait_all_ranks)
        if group.rank() == 0:
            barrier_ended.wait(60)
        return str(caught.value)

    with opened_ranks() as ranks:
        said = ranks.run(program)
    for rank in (0, 2):
        assert "rank 1 (h1)" in said[rank]
        assert ("rank 3 (h3)" in said[rank]) == wait_all_ranks
    assert "this rank, 3, called it after the timeout" in said[3]


def test_operations_use_the_timeout_that_was_set_last() -> None:
    def program(group: InnetProcessGroup) -> str:
        group.set_timeout(timedelta(seconds=1))
        if group.rank() == 2:
            return ""
        with pytest.raises(DeadlineExceeded) as caught:
            group.barrier().wait()
        return str(caught.value)

    with opened_ranks(timeout_s=1000) as ranks:
        said = ranks.run(program)
    for rank in (0, 1, 3):
        assert "barrier() seq=0" in said[rank]
        assert "2" in said[rank].partition("seq=0")[2]


def test_a_waiting_step_does_not_delay_a_rank_that_leaves() -> None:
    with Cluster(load_topology("star:2"), timeout_s=1000) as cluster:
        group = InnetProcessGroup(cluster.communicators[0])
        work = group.allreduce([torch.eye(3).to_sparse()], AllreduceOptions())
        leaving = threading.Thread(target=group.shutdown, daemon=True)
        leaving.start()
        leaving.join(60)
        assert not leaving.is_alive()
        with pytest.raises(Cancelled):
            work.wait()


@pytest.mark.jobs
def test_sys_exit_is_reported_while_a_step_waits(run_job) -> None:
    result = run_job("exits.py", topology="star:2")
    assert "rank 1 (h1) ended by sys.exit: no more data" in result.said("h0")
