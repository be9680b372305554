"""``innet tell``: commands that arrive, and reasons why they do not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .runs import invoked, read_until, started


@pytest.fixture(scope="module")
def network(registry: object) -> Iterator[str]:
    """The id of a network that is up."""
    with started("up", "star:2", "--name", "told") as launcher:
        read_until(launcher, "innet down told")
        yield "told"
        invoked("down", "told")


def test_a_node_executes_commands(network: str) -> None:
    assert invoked("tell", network, "s0", "set-interval", "0.5").stdout == (
        "s0 publishes counters every 0.5 s\n"
    )
    assert invoked("tell", network, "s0", "drop-cache").stdout == "s0 dropped 0 cached packets\n"
    assert json.loads(invoked("tell", network, "s0", "dump-state").stdout)["kind"] == "switch"


@pytest.mark.parametrize(
    ("node", "why"), [("nosuch", "is no node of its topology"), ("h0", "does not run now")]
)
def test_an_absent_node_is_reported_at_once_with_the_present_ones(
    network: str, node: str, why: str
) -> None:
    told = invoked("tell", network, node, "drop-cache")
    assert told.returncode == 1
    assert f"it {why}. These nodes run: s0;" in " ".join(told.stderr.split())


@pytest.mark.usefixtures("registry")
def test_commands_to_a_run_without_a_broker_are_refused() -> None:
    with started("up", "star:2", "--name", "deaf", "--broker", "none") as launcher:
        read_until(launcher, "innet down deaf")
        told = invoked("tell", "deaf", "s0", "drop-cache")
        invoked("down", "deaf")
    assert told.returncode == 1
    assert "runs without telemetry" in told.stderr


def test_status_shows_the_address_of_the_broker(network: str) -> None:
    assert "MQTT: unix:///" in invoked("status", network).stdout
