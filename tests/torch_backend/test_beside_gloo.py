"""What torch.distributed gives over innet is what it gives over Gloo, and compiled as not."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_every_operation_gives_what_gloo_gives(run_job):
    result = run_job("beside_gloo.py")
    assert result.failure == ""
    for rank in range(4):
        said = result.said(f"h{rank}")
        assert "agree False" not in said
        assert "all cases done" in said


@pytest.mark.slow
def test_compiled_functions_communicate(run_job):
    result = run_job("compiled.py")
    assert result.failure == ""
    for rank in range(4):
        assert "compiled as it is: True" in result.said(f"h{rank}")
        assert "trained as it is: True" in result.said(f"h{rank}")
