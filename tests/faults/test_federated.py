"""Federated averaging under masks, while a worker's process is killed in the midst of a round."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from innet.cluster.launch import RestartPolicy, Session
from innet.topology import load_topology

pytestmark = pytest.mark.faults

APP = Path(__file__).parents[2] / "apps" / "federated.py"
WORKERS = 4
ROUNDS = 20


@pytest.mark.parametrize("after_s", [0.0, 0.003, 0.006, 0.01, 0.02])
def test_no_round_is_lost_and_all_remaining_ranks_have_the_same_model(after_s):
    lines: list[tuple[str, str]] = []

    async def launch() -> tuple[str, ...]:
        topology = load_topology(f"star:{WORKERS}")
        async with Session(topology, output=lambda *said: lines.append(said)) as session:
            command = [sys.executable, str(APP), "--rounds", str(ROUNDS)]
            dies = ["--kill", "1", "--in-round", "2", "--after", str(after_s)]
            return await session.run_workers(
                [*command, *dies], restarts=RestartPolicy(elastic=True)
            )

    lost = asyncio.run(launch())
    assert any("h1" in ended for ended in lost)
    told = [re.match(r"round (\d+): loss ([\d.]+) after .* (\d) of 4", line) for _, line in lines]
    rounds = [[float(value) for value in found.groups()] for found in told if found]
    assert [number for number, _, _ in rounds] == list(range(ROUNDS))
    contributors = [count for _, _, count in rounds]
    assert contributors == sorted(contributors, reverse=True)  # whenever the process has died
    assert contributors[:2] == [WORKERS] * 2
    assert contributors[-1] == WORKERS - 1
    assert rounds[-1][1] < rounds[0][1]
    models = {label: line for label, line in lines if line.startswith("model ")}
    assert set(models) == {"h0", "h2", "h3"}
    assert len(set(models.values())) == 1
