"""DistributedDataParallel trains over innet as it does over any backend, and fails like one."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_training_equals_that_of_one_process_on_all_ranks(run_job):
    result = run_job("data_parallel.py")
    assert result.failure == ""
    for rank in range(4):
        said = result.said(f"h{rank}")
        for algorithm in ("inc", "ring", "ps"):
            assert f"{algorithm}: same bits True, as alone True" in said
        assert "objects [0, 1, 2, 3]" in said


def test_a_killed_rank_is_named_to_the_others(run_job):
    result = run_job("dies.py")
    assert "h2" in result.failure
    assert "SIGKILL" in result.failure
    for node in ("h0", "h1", "h3"):
        heard = [line for line in result.said(node).splitlines() if line.startswith("heard|")]
        assert len(heard) == 1, result.said(node)
        assert "RankFailed" in heard[0]
        assert "rank 2 (h2)" in heard[0]
        assert "SIGKILL" in heard[0]


def test_ranks_may_run_out_of_inputs_long_before_the_others(run_job):
    result = run_job("uneven_inputs.py")
    assert result.failure == ""
    for rank, steps in enumerate((0, 1, 2, 40)):
        assert f"steps {steps}, same True, mean True" in result.said(f"h{rank}")
