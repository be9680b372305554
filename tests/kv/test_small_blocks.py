"""Many small blocks take no more memory than the store counts and its capacity allows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parent / "workers" / "small_blocks.py"
MEMORY_BYTES = 24 << 20
EACH_BYTES = 3072
"""Of a block's bookkeeping, at least: more of them than fit are put."""


@pytest.mark.parametrize("size", [100, 1024, 2000])
def test_small_blocks_stay_within_the_memory_of_their_store(size: int) -> None:
    blocks = MEMORY_BYTES // (size + EACH_BYTES) + 500
    command = [sys.executable, str(WORKER), str(size), str(MEMORY_BYTES), str(blocks)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(ended.stdout)
    assert found["evicted"] > 0
    assert 0.95 * MEMORY_BYTES < found["used_bytes"] <= MEMORY_BYTES
    assert found["grown_bytes"] < 1.2 * MEMORY_BYTES
