"""Any switch may die at any time, and a training goes on with the same loss curve to the bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.faults.conftest import FaultyRun, no_faults, run_with_faults

pytestmark = pytest.mark.faults

TRAINING = Path(__file__).parents[2] / "apps" / "train_digits.py"


@pytest.mark.torch
@pytest.mark.slow
async def test_the_loss_curve_does_not_depend_on_which_switch_dies(tmp_path):
    async def faults(run: FaultyRun) -> None:
        for epoch, switch in ((1, "spine0"), (3, "leaf1")):
            await run.said("h0", f"inc: epoch {epoch}/")
            run.kill(switch)
            await run.said("innet", f"switch {switch} is back")

    curves = []
    for name, happening in (("calm", no_faults), ("faulty", faults)):
        into = tmp_path / f"{name}.json"
        options = ["--epochs", "40", "--algorithms", "inc", "--output", str(into)]
        command = [sys.executable, str(TRAINING), *options]
        result = await run_with_faults("leaf-spine:2x2x2", command, happening)
        assert result.failure == ""
        (record,) = json.loads(into.read_text())
        curves.append(record["losses_hex"])
    assert curves[0] == curves[1]
