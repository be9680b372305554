"""PyTorch's kinds of parallelism train over innet as they do over Gloo."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch

from innet.cluster.launch import Session
from innet.topology import load_topology

pytestmark = [pytest.mark.torch, pytest.mark.slow]

RANKS = 4
STEPS = 20
WORKER = Path(__file__).parent / "workers" / "parallelism.py"
APPS = Path(__file__).parents[2] / "apps"
# Layouts and layers, as few as a layout takes: most of the time goes by layers, not by sizes.
# For each, the copies of a part of the parameters; where there is one, nothing can be compared.
COPIES = {
    "ddp@2": 4,
    "ddp@4": 4,
    "fsdp@2": 1,
    "hsdp@2": 2,
    "tp@2": 4,  # the norms and embeddings, which are not cut
    "fsdp:2,tp:2@2": 2,
    "pp@4": 1,
    "pp:2,ddp:2@2": 2,
    "ep@2": 4,  # all but the experts
    "cp@2": 4,
}
# Replicas, shards, cut layers and stages; `make jobs` has each kind of parallelism by itself.
QUICK = ("ddp@2", "fsdp:2,tp:2@2", "pp:2,ddp:2@2")
CASES = [
    pytest.param(case, marks=() if case in QUICK else pytest.mark.jobs, id=case) for case in COPIES
]
DENSE = [case for case in CASES if case.id != "ep@2"]

Found = list[dict[str, Any]]
"""What ``workers/parallelism.py`` saved, by rank."""


async def train(folder: Path, cases: Sequence[str]) -> None:
    lines: list[str] = []
    session = Session(load_topology(f"star:{RANKS}"), output=lambda _, line: lines.append(line))
    async with session:
        await session.run_workers(
            [sys.executable, str(WORKER), str(folder), *cases],
            env={"PYTHONPATH": str(APPS), "OMP_NUM_THREADS": "1"},
        )


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What was found for a backend and a case. All that the selected tests look at are trained in
    one job: starting the ranks takes longer than the training."""
    folder = tmp_path_factory.mktemp("parallelism")
    asyncio.run(train(folder, asked_for(request)))

    def found(backend: str, case: str) -> Found:
        found = [torch.load(folder / backend / case / f"{rank}.pt") for rank in range(RANKS)]
        for rank, of_rank in enumerate(found):
            assert "error" not in of_rank, f"{backend}, rank {rank}: {of_rank['error']}"
        return found

    return found


def asked_for(request: pytest.FixtureRequest) -> list[str]:
    """The cases of the selected tests, and what they are compared with."""
    tests = [item for item in request.session.items if item.path == request.path]
    cases = {
        str(test.callspec.params["case"]) for test in tests if isinstance(test, pytest.Function)
    }
    return sorted({*cases, *map(plain, cases)})


def plain(case: str) -> str:
    """The same layers, replicated."""
    return f"ddp@{case[-1]}"


def losses(found: Found) -> list[float]:
    """The mean over the ranks that know a loss, of each step."""
    known = [of_rank["losses"] for of_rank in found if of_rank["losses"][0] is not None]
    return [sum(of_step) / len(known) for of_step in zip(*known, strict=True)]


@pytest.mark.parametrize("case", CASES)
def test_parameters_after_20_steps_are_those_of_gloo(trained: Any, case: str) -> None:
    for own, peer in zip(trained("innet", case), trained("gloo", case), strict=True):
        assert len(own["losses"]) == STEPS
        assert own["parameters"].keys() == peer["parameters"].keys()
        for name, (shard, parameter) in own["parameters"].items():
            peer_shard, of_peer = peer["parameters"][name]
            assert shard == peer_shard
            torch.testing.assert_close(parameter, of_peer, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_copies_are_the_same_to_the_bit(trained: Any, case: str) -> None:
    parts = [
        ((name, shard), parameter)
        for of_rank in trained("innet", case)
        for name, (shard, parameter) in of_rank["parameters"].items()
    ]
    most = 0
    for key, copies in groupby(sorted(parts, key=lambda part: part[0]), key=lambda part: part[0]):
        first, *others = [parameter for _, parameter in copies]
        assert all(torch.equal(first, other) for other in others), key
        most = max(most, 1 + len(others))
    assert most == COPIES[case]


@pytest.mark.parametrize("case", DENSE)
def test_the_layout_changes_nothing_but_rounding(trained: Any, case: str) -> None:
    expected = losses(trained("innet", plain(case)))
    assert losses(trained("innet", case)) == pytest.approx(expected, rel=1e-5)
    assert expected[-1] < 0.75 * expected[0], "it learns"
