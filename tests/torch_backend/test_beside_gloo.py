"""What torch.distributed gives over innet is what it gives over Gloo."""

from __future__ import annotations

import pytest
import torch

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.jobs]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_operation_gives_the_result_of_gloo(run_job, device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device: there is none here")
    result = run_job("beside_gloo.py", [device])
    assert result.failure == ""
    for rank in range(4):
        said = result.said(f"h{rank}")
        assert "agree False" not in said
        assert "all cases done" in said
