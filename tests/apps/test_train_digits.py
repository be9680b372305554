"""The training of the demonstration: the same over a network as in one process.

``tests/torch_backend/test_programs.py`` has DistributedDataParallel beside one process in each run.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import train_digits

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = [pytest.mark.torch, pytest.mark.jobs, pytest.mark.slow]

TRAIN_DIGITS = Path(train_digits.__file__)
TEST_IMAGES = 360


def train_alone(epochs: int) -> train_digits.Record:
    (record,) = train_digits.train_alone(train_digits.Hyperparameters(epochs, 128, 512, 0.1, 1))
    return record


def train_together(
    topology: str, output: Path, epochs: int, *algorithms: str
) -> list[dict[str, Any]]:
    async def launch() -> None:
        lines: list[str] = []
        async with Session(
            load_topology(topology), output=lambda _label, line: lines.append(line)
        ) as session:
            chosen = ["--epochs", str(epochs), "--output", str(output)]
            await session.run_workers(
                [sys.executable, str(TRAIN_DIGITS), *chosen, "--algorithms", *algorithms],
                env={"OMP_NUM_THREADS": "1"},
            )
        assert any(f"epoch {epochs}/{epochs}" in line for line in lines), "rank 0 shows progress"

    asyncio.run(launch())
    records: list[dict[str, Any]] = json.loads(output.read_text())
    return records


def test_accuracy_equals_that_of_one_process_and_placement_changes_no_bit(tmp_path: Path) -> None:
    alone = train_alone(3)
    placements = ("inc:roots=spine0", "inc:roots=spine1", "ring")
    first, second, ring = train_together(
        "leaf-spine:2x2x2", tmp_path / "together.json", 3, *placements
    )
    assert alone.accuracies[-1] > 0.85
    for record in (first, second, ring):
        assert record["ranks"] == 4
        assert abs(record["accuracies"][-1] - alone.accuracies[-1]) <= 1.001 / TEST_IMAGES
        assert record["losses"] == pytest.approx(alone.losses, rel=1e-3)
        assert record["busiest_link_bytes"] >= len(record["losses"]) * record["gradient_bytes"]
    assert first["losses_hex"] == second["losses_hex"], "the same expression on another spine"
