"""The asynchronous GPT beside the synchronous one: what it prints, saves and refuses."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from asynchronous.comparison import Curve
from train_async import parse_arguments, refusal

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = pytest.mark.torch

TRAIN_ASYNC = Path(__file__).parents[2] / "apps" / "train_async.py"
SMALL = ("--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "4")


@pytest.mark.jobs
def test_both_trainings_complete_and_learn(tmp_path: Path) -> None:
    output = tmp_path / "async.json"
    lines: list[str] = []
    options = (
        *("--steps", "20", "--evaluate-s", "0.1", "--output", str(output)),
        *("--slow-rank", "1", "--slow-factor", "3", "--servers", "2", "--staleness", "30"),
    )

    def keep_those_of_rank_0(node: str, line: str) -> None:
        if node == "h0":
            lines.append(line)

    async def launch() -> None:
        async with Session(load_topology("star:3"), output=keep_those_of_rank_0) as session:
            await session.run_workers(
                [sys.executable, str(TRAIN_ASYNC), *SMALL, *options],
                env={"OMP_NUM_THREADS": "1"},
            )

    asyncio.run(launch())
    synchronous, asynchronous = (
        Curve(**curve) for curve in json.loads(output.read_text())["curves"]
    )
    assert synchronous.worker_steps == [20, 20, 20]
    # Who pulls just before the last step is pushed makes one more.
    assert 60 <= sum(asynchronous.worker_steps) <= 62
    for curve in (synchronous, asynchronous):
        assert curve.losses[-1] < curve.losses[0] - 1
        assert curve.seconds == sorted(curve.seconds)
    assert any("asynchronous: [####################]" in line for line in lines)
    assert any("left the servers" in line for line in lines)
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--slow-rank", "4"], "none of the ranks 0 to 3"),
        (["--slow-factor", "0.5"], "would be faster"),
        (["--servers", "5"], "4 ranks to choose from"),
        (["--width", "30"], "multiple of --heads"),
        (["--steps", "0"], "at least 1"),
        (["--heads", "0"], "at least 1"),
        (["--staleness", "-1"], "at least 0"),
    ],
)
def test_invalid_options_are_refused(options: list[str], message: str) -> None:
    assert message in (refusal(parse_arguments(options), ranks=4) or "")
    assert refusal(parse_arguments([]), ranks=4) is None
