"""Leaving a group waits for nothing that cannot come any more."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.distributed import AllreduceOptions

from innet.errors import Cancelled
from innet.topology import load_topology
from innet.torch_backend.process_group import InnetProcessGroup
from tests.collectives.cluster import Cluster

pytestmark = pytest.mark.torch


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
