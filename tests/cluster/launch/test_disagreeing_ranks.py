"""Ranks that join a group with different arguments, in a real job."""

from __future__ import annotations

import sys

import pytest

from tests.cli.runs import innet

pytestmark = pytest.mark.slow

PROGRAM = """
import os, innet, numpy as np
try:
    innet.init(algorithm="ring" if os.environ["RANK"] == "1" else "inc")
except innet.errors.ControlError as error:
    print("told:", error, flush=True)
print("sum", innet.init(algorithm="inc").allreduce(np.ones(1))[0], flush=True)
"""


def test_different_algorithms_fail_on_all_ranks_at_once_and_ranks_can_join_again() -> None:
    done = innet("run", "star:3", "--", sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "told:" in line]
    assert len(told) == 3, done.stdout
    for line in told:
        assert "rank 1 (h1)" in line
        assert "algorithm=ring" in line
        assert "algorithm=inc" in line
    assert done.stdout.count("sum 3.0") == 3, done.stdout
