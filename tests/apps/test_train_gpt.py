"""The GPT's program: what it prints and saves, checkpoints across layouts, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import train_gpt
from gpt.layout import LayoutError
from train_gpt import checked_layout, microbatches_of, parse_arguments

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = pytest.mark.torch

TRAIN_GPT = Path(__file__).parents[2] / "apps" / "train_gpt.py"
SMALL = (
    *("--layers", "2", "--width", "32", "--heads", "4", "--context", "16", "--batch", "8"),
    *("--experts", "4"),
)


def train(*jobs: Sequence[str]) -> list[str]:
    """Run one job after the other on two hosts; what rank 0 printed."""
    lines: list[str] = []

    def keep_those_of_rank_0(node: str, line: str) -> None:
        if node == "h0":
            lines.append(line)

    async def launch() -> None:
        async with Session(load_topology("star:2"), output=keep_those_of_rank_0) as session:
            for options in jobs:
                await session.run_workers(
                    [sys.executable, str(TRAIN_GPT), *SMALL, *options],
                    env={"OMP_NUM_THREADS": "1"},
                )

    asyncio.run(launch())
    return lines


@pytest.mark.slow
@pytest.mark.jobs
def test_a_training_continues_from_a_checkpoint_of_another_layout(tmp_path: Path) -> None:
    whole, first, second = (tmp_path / f"{name}.json" for name in ("whole", "first", "second"))
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
    lines = train(
        ["--parallel", "ddp", "--steps", "6", "--output", str(whole)],
        ["--parallel", "ep", "--steps", "3", "--output", str(first), *checkpoint],
        ["--parallel", "fsdp", "--steps", "6", "--output", str(second), *checkpoint],
    )
    assert any("step 6/6" in line and "tokens/s" in line for line in lines)
    records = [json.loads(path.read_text()) for path in (whole, first, second)]
    assert [record["first_step"] for record in records] == [0, 0, 3]
    assert records[1]["losses"] == pytest.approx(records[0]["losses"][:3], rel=1e-4)
    assert records[2]["losses"] == pytest.approx(records[0]["losses"][3:], rel=1e-4)
    for record in records:
        assert len(record["step_s"]) == len(record["losses"])
        assert all(
            0 <= waited_s <= step_s
            for waited_s, step_s in zip(record["waited_s"], record["step_s"], strict=True)
        )
        assert len(record["waited_share"]) == 2
    assert whole.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--parallel", "ddp:3"], "3 = 3 ranks, and there are 4"),
        (["--parallel", "fsdp:2,tp:4"], "2 x 4 = 8 ranks, and there are 4"),
        (["--parallel", "zero"], "no parallelism 'zero'"),
        (["--parallel", "ddp,tp:2"], "ddp:2"),
        (["--parallel", "tp:two"], "number of ranks"),
        (["--parallel", "tp:2,tp:2"], "twice"),
        (["--parallel", "ep:2,tp:2"], "What can be combined"),
        (["--parallel", "ddp", "--batch", "6"], "multiple of 4"),
        (["--parallel", "tp", "--heads", "2"], "multiple of 4"),
        (["--parallel", "pp", "--layers", "2"], "more --layers"),
        (["--parallel", "pp", "--microbatches", "0"], "--microbatches 0: it must be at least 1"),
        (["--parallel", "pp", "--microbatches", "2"], "--microbatches 4, or --schedule gpipe"),
        (["--report-every", "0"], "--report-every 0: it must be at least 1"),
        (["--parallel", "ep", "--experts", "0"], "--experts 4 or more"),
        (["--output", "."], "--output . is a directory: give a file"),
        (["--output", "losses.png"], "--output losses.png: end it in .json"),
    ],
)
def test_invalid_options_are_refused_with_advice(options: list[str], message: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(message)):
        checked_layout(parse_arguments(options), ranks=4)


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_a_pipeline_of_any_number_of_ranks_needs_no_further_options(stages: int) -> None:
    arguments = parse_arguments(["--parallel", "pp"])
    layout = checked_layout(arguments, ranks=stages)
    assert microbatches_of(arguments, layout) >= stages


def refusal(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", ["train_gpt.py", *options])
    with pytest.raises(SystemExit) as ended:
        train_gpt.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_refusal_is_one_message_and_an_error_status(monkeypatch, capsys) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    said = refusal(["--parallel", "ddp:3"], monkeypatch, capsys)
    assert "3 = 3 ranks, and there are 4" in said


def test_outside_a_run_the_error_says_how_to_start_one(monkeypatch, capsys) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert "innet run star8" in refusal([], monkeypatch, capsys)
