"""``innet doctor`` shows each cause once, and leaves workers alone that are still starting."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.cluster.emulation.runs import create_run, remove_run
from innet.cluster.process_states import ProcessState
from innet.observe.doctor import Finding, grouped, observation
from tests.cli.conftest import cli, registry
from tests.observe.doctor.states import State

__all__ = ["cli", "registry"]


def finding(check: str, subject: str, severity: float, cause: str = "") -> Finding:
    return Finding(
        check=check,
        subject=subject,
        problem=f"{subject} is ill",
        remedy="rest",
        severity=severity,
        cause=cause,
    )


def test_findings_of_one_cause_are_merged_into_the_worst() -> None:
    dead = finding("dead_node", "s0", 0, "gone")
    stopped = finding("dead_node", "s1", 0, "stopped")
    lossy = [finding("lossy_link", f"h{n}→s0", severity=n % 7) for n in range(48)]
    groups = grouped([dead, stopped, *lossy])
    assert [group.worst for group in groups] == [dead, stopped, lossy[6]]
    assert groups[0].more() == []
    (line,) = groups[2].more()
    assert line.startswith("and 47 more like it: h13→s0, ")
    assert line.endswith(", …")


def test_findings_that_follow_from_others_are_shown_below_them() -> None:
    lost = finding("lost_node", "s0", 0)
    routes = [
        finding("missing_route", f"h{n}", 0).model_copy(update={"because": "s0"}) for n in range(6)
    ]
    (group,) = grouped([lost, *routes])
    assert group.worst == lost
    assert group.more() == ["which explains 6 findings of missing_route: h0, h1, h2, h3, …"]


def lossy_everywhere() -> State:
    state = State()
    for node, peer, lost in (("h0", "s0", 50), ("s0", "h0", 100), ("h1", "s0", 60)):
        state.send(node, peer, packets=1000, arrived=1000 - lost)
        state.face(node, peer)["port"]["dropped_loss"] = lost
    return state


@pytest.mark.parametrize(("options", "sentences"), [([], 1), (["--all"], 3)])
def test_the_command_shows_the_worst_link_and_the_number_of_similar_ones(
    cli: CliRunner,
    registry: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    sentences: int,
) -> None:
    state = lossy_everywhere()
    monkeypatch.setattr(observation, "observe", lambda record, seconds: state.observation())
    record = create_run("lab", "star-2", "local")
    result = cli.invoke(app, ["doctor", "lab", *options])
    remove_run(record)
    assert result.exit_code == 1
    assert result.stdout.count("→ Every lost packet") == sentences
    assert result.stdout.startswith("The link s0→h0 lost 100 of 1000") == (not options)
    assert ("and 2 more like it: h1→s0, h0→s0" in result.stdout) == (not options)


def starved(state: State, *nodes: str) -> State:
    state.processes_after = {**state.processes, **{n: ProcessState(waited_s=0.9) for n in nodes}}
    return state


@pytest.mark.parametrize("group", ["none", "waits"])
def test_starting_workers_are_not_checked(group: str) -> None:
    state = starved(State(), "h0", "h1")
    assert [f.subject for f in state.examine()] == ["h0", "h1"]
    state.groups = [] if group == "none" else [{**state.groups[0], "joined": [0]}]
    assert state.examine() == []
    assert state.observation().starting() == {"h0", "h1"}


def test_a_worker_that_does_not_start_is_checked_after_a_minute() -> None:
    state = starved(State(), "h0", "h1")
    state.groups = []
    for answers in (state.before, state.after):
        answers["h1"]["uptime_s"] += 60
    assert [f.subject for f in state.examine()] == ["h1"]


def test_a_server_without_a_group_is_checked_once_it_is_in_a_pool() -> None:
    state = starved(State(), "h0", "h1")
    state.groups = []
    state.pools = [{"tenant": "acme", "members": {"h0": 1 << 30}}]
    assert [f.subject for f in state.examine()] == ["h0"]
    assert state.observation().starting() == {"h1"}


def test_switches_are_checked_while_workers_start() -> None:
    state = starved(State(), "s0")
    state.groups = []
    assert [f.subject for f in state.examine()] == ["s0"]
