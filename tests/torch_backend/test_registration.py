"""PyTorch finds the backend by itself, and pays nothing for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch


PROGRAM = """
import sys, torch.distributed as dist
print("registered", "innet" in dist.Backend.backend_list)
wanted_later = {"innet._native._core", "innet.torch_backend.process_group"}
print("loaded", wanted_later & set(sys.modules))
dist.init_process_group("innet", store=dist.HashStore(), rank=0, world_size=1)
"""


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    """A program that imports PyTorch, and then uses the backend outside a run."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )


def test_importing_torch_registers_the_backend_without_loading_it(
    done: subprocess.CompletedProcess[str],
) -> None:
    assert done.stdout.splitlines() == ["registered True", "loaded set()"], done.stderr


def test_outside_a_run_the_error_says_how_to_start(
    done: subprocess.CompletedProcess[str],
) -> None:
    assert done.returncode == 1
    assert "EmulationError" in done.stderr
    assert "innet run TOPOLOGY -- python" in done.stderr
