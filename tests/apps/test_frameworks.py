"""Frameworks train over innet as over Gloo, with the scripts of docs/frameworks.md."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = [pytest.mark.torch, pytest.mark.jobs]

APPS = Path(__file__).parents[2] / "apps"
NEEDS = {
    "ddp": "torch",
    "fsdp2": "torch",
    "trainer": "transformers",
    "accelerate": "accelerate",
    "fabric": "lightning",
    "lightning": "lightning",
    "deepspeed": "deepspeed",
    "megatron": "megatron.core",
    "peft": "peft",
    "trl": "trl",
}
OPTIONS = {
    "ddp": ("", "--model transformer"),
    "fsdp2": ("", "--model transformer"),
    "lightning": ("", "--fsdp2"),
    "deepspeed": tuple(f"--stage {stage}" for stage in range(4)),
}
"""Options of the scripts that are tested with more than their defaults."""


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent of the module is missing
        return False


def train(framework: str, backend: str, options: str) -> float:
    """The loss after five steps on two hosts.

    Ranks of Gloo are killed after rank 0 has reported: PyTorch 2.13 sometimes waits forever at the
    end of a process that destroys a group of Gloo.
    """
    lines: list[str] = []
    script = APPS / f"with_{framework}.py"
    command = [sys.executable, str(script), "--steps", "5", *options.split()]

    async def launch() -> None:
        loop, reported = asyncio.get_running_loop(), asyncio.Event()

        def take(_label: str, line: str) -> None:
            lines.append(line)
            if line.startswith("loss="):
                loop.call_soon_threadsafe(reported.set)

        async with Session(load_topology("star:2"), output=take) as session:
            job = asyncio.ensure_future(session.run_workers([*command, "--backend", backend]))
            if backend == "gloo":
                report = asyncio.ensure_future(reported.wait())
                await asyncio.wait({job, report}, return_when=asyncio.FIRST_COMPLETED)
                report.cancel()
                if not job.done():
                    job.cancel()
                    await asyncio.wait({job})
                    return
            await job

    asyncio.run(launch())
    losses = [found for line in lines if (found := re.match(r"loss=(\S+) step_ms=", line))]
    assert len(losses) == 1, lines
    return float(losses[0].group(1))


@pytest.mark.parametrize(
    ("framework", "options"),
    [(name, options) for name in NEEDS for options in OPTIONS.get(name, ("",))],
)
def test_a_framework_trains_to_the_loss_of_gloo(framework: str, options: str) -> None:
    if not is_installed(NEEDS[framework]):
        pytest.skip(f"{NEEDS[framework]} is not installed: pip install 'innet[frameworks]'")
    over_gloo = train(framework, "gloo", options)
    assert train(framework, "innet", options) == pytest.approx(over_gloo, rel=1e-5)


def test_every_framework_of_the_page_is_tested() -> None:
    page = (APPS.parent / "docs" / "frameworks.md").read_text()
    assert set(re.findall(r"apps/with_(\w+)\.py", page)) == set(NEEDS)
    assert {path.stem.removeprefix("with_") for path in APPS.glob("with_*.py")} == set(NEEDS)
