"""Training that does not wait for the last: the same weights everywhere, and nothing lost."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.faults]


def test_late_gradients_are_added_in_the_next_step_and_replicas_stay_equal(run_job):
    result = run_job("stragglers.py")
    assert result.failure == ""
    for rank in range(4):
        assert result.said(f"h{rank}").splitlines() == [
            "moved as the sets say True",
            "all at the ends True",
            "once without it True",
            "nothing left True True",
            "the same everywhere True",
        ]
