"""Some hundreds of random networks, programs and faults; ``make swarm`` runs as many as wanted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.swarm.__main__ import fresh_base
from tests.swarm.draw import scenario_from_seed
from tests.swarm.execution import Execution
from tests.swarm.scenario import Call, Group, LinkModel, Scenario
from tests.swarm.shrink import shrink
from tests.swarm.sweep import sweep

ROOT = Path(__file__).parents[2]
MUTATIONS = sorted(Path(__file__).with_name("mutations").glob("*.patch"))
FIXED_BASE = 20_000
SEEDS = 75


@pytest.mark.parametrize("base", [FIXED_BASE, fresh_base()], ids=["fixed", "fresh"])
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_whatever_happens_operations_end_with_the_right_bits_or_an_error(
    base: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\nswarm: seeds {base} to {base + SEEDS - 1}")
    summary = sweep(range(base, base + SEEDS))
    told = [
        f"python -m tests.swarm {result.seed} --log --shrink: {result.problems[0]}"
        for result in summary.failures
    ]
    assert not told, "\n".join(told)
    assert summary.operations > 5 * SEEDS


@pytest.mark.parametrize("seed", range(20_000, 20_005))
def test_a_seed_replays_to_the_packet(seed: int) -> None:
    first, again = (Execution(scenario_from_seed(seed)).run() for _ in range(2))
    assert (first.digest, first.log) == (again.digest, again.log)


def test_a_scenario_survives_being_written_down() -> None:
    for seed in range(20):
        scenario = scenario_from_seed(seed)
        assert Scenario.from_json(scenario.to_json()) == scenario


def test_a_failing_scenario_is_cut_down_to_what_makes_it_fail() -> None:
    slow = LinkModel(delay_s=0.01)  # too slow for the deadline: a problem that nothing excuses
    calls = (Call("allreduce", elements=10), Call("barrier"), Call("broadcast", elements=500))
    scenario = Scenario(
        seed=3,
        topology="star:4",
        links=slow,
        groups=(Group(("h0", "h1", "h2", "h3"), "ps", calls),),
        timeout_s=0.005,
    )
    smallest = shrink(scenario)
    assert len(smallest.groups[0].calls) == 1
    assert len(smallest.groups[0].hosts) == 2


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda path: path.stem)
def test_a_mutation_applies_to_the_sources(mutation: Path) -> None:
    """`make swarm-mutations` takes long: this notices earlier that the sources have changed."""
    apply = ["patch", "--dry-run", "--force", "--fuzz=0", "--strip=1", f"--input={mutation}"]
    done = subprocess.run(apply, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
