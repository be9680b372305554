"""A worker that forks: the child has no part in the job, and ends without a trace in it."""

from __future__ import annotations


def test_a_failing_forked_child_does_not_fail_the_rank(run_job):
    result = run_job("forks.py", topology="star:2")
    assert result.failure == ""
    for node in ("h0", "h1"):
        said = result.said(node)
        assert "the child ended with 1, the sum is 2" in said
        assert said.count("was forked from the worker of this host") == 3, said
