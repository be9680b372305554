"""Data-parallel training on two hosts with two workers each."""

from __future__ import annotations

import pytest

from innet.topology import load_topology

pytestmark = pytest.mark.torch

TWO_BY_TWO = load_topology("star:2").with_workers(2).with_overrides(rate_bps=1e9)
MODES = ["local", pytest.param("netns", marks=pytest.mark.netns)]


@pytest.mark.parametrize("mode", MODES)
def test_programs_that_use_local_ranks_train_as_they_are(run_job, mode):
    result = run_job(["local_ranks.py", "data_parallel.py"], topology=TWO_BY_TWO, mode=mode)
    assert result.failure == ""
    for rank in range(4):
        host, local_rank = divmod(rank, 2)
        said = result.said(f"h{host}.{local_rank}", "local_ranks.py")
        # PyTorch's store may warn before it, that a namespace has no name server.
        seat = f"{rank}: {local_rank} on host {host}"
        assert said.splitlines()[-1] == f"{seat}, same True, trained True"
        trained = result.said(f"h{host}.{local_rank}", "data_parallel.py")
        for algorithm in ("inc", "ring", "ps"):
            assert f"{algorithm}: same bits True, as alone True" in trained
