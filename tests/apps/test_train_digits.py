"""The training of the demonstration: the same over a network as in one process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = pytest.mark.torch

TRAIN_DIGITS = Path(__file__).parents[2] / "apps" / "train_digits.py"
TEST_IMAGES = 360


def train_alone(output: Path, epochs: int) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, TRAIN_DIGITS, "--single", "--epochs", str(epochs), "--output", output],
        check=True,
        timeout=240,
        capture_output=True,
    )
    records: list[dict[str, Any]] = json.loads(output.read_text())
    (record,) = records
    return record


def train_together(
    topology: str, output: Path, epochs: int, *algorithms: str
) -> list[dict[str, Any]]:
    async def launch() -> None:
        lines: list[str] = []
        async with Session(
            load_topology(topology), output=lambda _label, line: lines.append(line)
        ) as session:
            chosen = ["--epochs", str(epochs), "--output", str(output), "--algorithms", *algorithms]
            await session.run_workers(
                [sys.executable, str(TRAIN_DIGITS), *chosen],
                env={"OMP_NUM_THREADS": "1"},
            )
        assert any(f"epoch {epochs}/{epochs}" in line for line in lines), "rank 0 shows progress"

    asyncio.run(launch())
    records: list[dict[str, Any]] = json.loads(output.read_text())
    return records


def test_an_epoch_is_that_of_one_process(tmp_path: Path) -> None:
    alone = train_alone(tmp_path / "alone.json", 1)
    (record,) = train_together("star:2", tmp_path / "together.json", 1, "inc")
    assert record["ranks"] == 2
    assert record["losses"] == pytest.approx(alone["losses"], rel=1e-3)
    assert abs(record["accuracies"][-1] - alone["accuracies"][-1]) <= 1.001 / TEST_IMAGES


@pytest.mark.slow
@pytest.mark.jobs
def test_accuracy_is_that_of_one_process_and_placement_changes_no_bit(tmp_path: Path) -> None:
    alone = train_alone(tmp_path / "alone.json", 3)
    placements = ("inc:roots=spine0", "inc:roots=spine1", "ring")
    first, second, ring = train_together(
        "leaf-spine:2x2x2", tmp_path / "together.json", 3, *placements
    )
    assert alone["accuracies"][-1] > 0.85
    for record in (first, second, ring):
        assert record["ranks"] == 4
        assert abs(record["accuracies"][-1] - alone["accuracies"][-1]) <= 1.001 / TEST_IMAGES
        assert record["losses"] == pytest.approx(alone["losses"], rel=1e-3)
        assert record["busiest_link_bytes"] >= len(record["losses"]) * record["gradient_bytes"]
    assert first["losses_hex"] == second["losses_hex"], "the same expression on another spine"
