"""What torch.distributed gives over innet is what it gives over Gloo, and compiled as not."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def said(run_job):
    result = run_job("in_turn.py", ["beside_gloo.py", "compiled.py"])
    assert result.failure == ""
    return [result.said(f"h{rank}") for rank in range(4)]


@pytest.mark.slow
def test_every_operation_gives_what_gloo_gives(said):
    for of_rank in said:
        assert "agree False" not in of_rank
        assert "all cases done" in of_rank


@pytest.mark.slow
def test_compiled_functions_communicate(said):
    for of_rank in said:
        assert "compiled as it is: True" in of_rank
        assert "trained as it is: True" in of_rank
