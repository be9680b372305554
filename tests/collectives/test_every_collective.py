"""Every collective gives what MPI's of the same name gives."""

import pytest


@pytest.mark.parametrize("algorithm", ["inc", pytest.param("ring", marks=pytest.mark.jobs), "auto"])
def test_every_collective(run_job, algorithm):
    result = run_job("every_collective.py", algorithm=algorithm, topology="star:3")
    assert result.failure == ""
    assert all(result.said(f"h{rank}") == "all right" for rank in range(3))


@pytest.mark.jobs
def test_every_collective_with_two_ranks(run_job):
    result = run_job("every_collective.py", topology="star:2")
    assert result.failure == ""


@pytest.mark.parametrize("algorithm", ["inc", pytest.param("auto", marks=pytest.mark.jobs)])
def test_a_group_left_can_be_joined_again(run_job, algorithm):
    result = run_job("same_group_again.py", algorithm=algorithm, topology="star:3")
    assert result.failure == ""
    assert all(result.said(f"h{rank}") == "all right" for rank in range(3))
