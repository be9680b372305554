"""PyTorch finds the backend by itself, and pays nothing for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )


def test_importing_torch_registers_the_backend_without_loading_it() -> None:
    done = run_python(
        "import sys, torch.distributed as dist\n"
        "assert 'innet' in dist.Backend.backend_list\n"
        "loaded = [name for name in sys.modules if name.startswith('innet')]\n"
        "assert 'innet._native._core' not in loaded, loaded\n"
        "assert 'innet.torch_backend.process_group' not in loaded, loaded\n"
    )
    assert done.returncode == 0, done.stderr


def test_outside_a_run_the_error_says_how_to_start() -> None:
    done = run_python(
        "import torch.distributed as dist\n"
        "dist.init_process_group('innet', store=dist.HashStore(), rank=0, world_size=1)\n"
    )
    assert done.returncode == 1
    assert "EmulationError" in done.stderr
    assert "innet run TOPOLOGY -- python" in done.stderr
