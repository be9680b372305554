"""DistributedDataParallel trains over innet as it does over any backend, compiled as not, and fails
like one."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def said(run_job):
    result = run_job("in_turn.py", ["data_parallel.py", "uneven_inputs.py", "compiled.py"])
    assert result.failure == ""
    return [result.said(f"h{rank}") for rank in range(4)]


def test_training_equals_that_of_one_process_on_all_ranks(said):
    for of_rank in said:
        for algorithm in ("inc", "ring", "ps"):
            assert f"{algorithm}: same bits True, as alone True" in of_rank
        assert "objects [0, 1, 2, 3]" in of_rank


def test_ranks_may_run_out_of_inputs_long_before_the_others(said):
    for of_rank, steps in zip(said, (0, 1, 2, 40), strict=True):
        assert f"steps {steps}, same True, mean True" in of_rank


def test_compiled_functions_communicate(said):
    for of_rank in said:
        assert "compiled as it is: True" in of_rank
        assert "trained as it is: True" in of_rank


@pytest.mark.jobs
def test_a_killed_rank_is_named_to_the_others(run_job):
    result = run_job("dies.py", topology="star:3")
    assert "h2" in result.failure
    assert "SIGKILL" in result.failure
    for node in ("h0", "h1"):
        heard = [line for line in result.said(node).splitlines() if line.startswith("heard|")]
        assert len(heard) == 1, result.said(node)
        assert "RankFailed" in heard[0]
        assert "rank 2 (h2)" in heard[0]
        assert "SIGKILL" in heard[0]
