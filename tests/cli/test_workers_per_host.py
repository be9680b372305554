"""``--workers-per-host``: several ranks on each host, and nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from innet.cli.main import app
from innet.topology.parts import MAX_WORKERS

from .conftest import processes_of
from .runs import TIMEOUT_S, innet, invoked, of_ranks, read_until, started

TWO_BY_TWO = ("star:2", "--workers-per-host", "2")
SEAT = "echo rank $RANK of $WORLD_SIZE: $LOCAL_RANK of $LOCAL_WORLD_SIZE on $NODE_RANK"
JOINS = "import innet; innet.init().barrier()"
RANK_2_DIES = """
import os, signal, innet
comm = innet.init()
comm.barrier()
if comm.rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
comm.barrier()
"""


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.netns
def test_ctrl_c_ends_all_workers() -> None:
    worker = ("sh", "-c", "echo working; exec sleep 600")
    with started("run", *TWO_BY_TWO, "--mode", "netns", "--", *worker) as launcher:
        read_until(launcher, "working")
        launcher.send_signal(signal.SIGINT)
        said = "".join(launcher.communicate(timeout=TIMEOUT_S))
    assert launcher.returncode == 130, said
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [0, MAX_WORKERS + 1])
def test_impossible_numbers_are_refused(number: int) -> None:
    done = invoked("run", "star:2", "--workers-per-host", str(number), "--", "true")
    assert done.returncode == 2
    assert f"found '{number}'" in done.stderr


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.netns
def test_workers_of_a_host_share_its_ports_and_bypass_the_kernel(
    tmp_path: Path,
) -> None:
    options = ("--mode", "netns", "--name", "shared", "--broker", "none")
    count = ("sh", "-c", "cat /proc/net/tcp | grep -c ' 00000000:18DB '")
    with started("up", *TWO_BY_TWO, *options, "--set", "ndn.port=6363") as launcher:
        read_until(launcher, "end it")
        refused = invoked("capture", "shared", "--at", "h0.1")
        output = ("--output", str(tmp_path / "shared.pcapng"))
        whole = invoked("capture", "shared", "--at", "h0", "--seconds", "1", *output)
        counted = invoked("run", "--on", "shared", "--", *count)
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=TIMEOUT_S)
    assert "h0.1: packets within a host pass through memory in netns mode" in refused.stderr
    assert "capturing 1 link of shared" in whole.stderr
    assert counted.returncode == 0, counted.stdout + counted.stderr


def test_a_plan_shows_both_levels(cli: CliRunner) -> None:
    done = cli.invoke(app, ["plan", *TWO_BY_TWO, "--algorithm", "inc", "--rate", "1gbit", "--json"])
    rules = {(r["node"], r["interval"]) for r in json.loads(done.output)["plan"]["rules"]}
    assert rules == {("h0", "0-1"), ("h1", "2-3"), ("s0", "0-3")}


@pytest.fixture(scope="module")
def launcher(registry: Path) -> Iterator[subprocess.Popen[str]]:
    """Keeps a network up, with two workers on each of two hosts."""
    with started("up", *TWO_BY_TWO, "--name", "shared", "--broker", "none") as launcher:
        assert "2 hosts with 4 workers, 1 switch, 2 links" in read_until(launcher, "is up")[0]
        read_until(launcher, "end it")
        yield launcher
        innet("down", "shared")
        launcher.communicate(timeout=TIMEOUT_S)
    assert processes_of(registry) == []
    assert list(registry.glob("*")) == []


@pytest.fixture
def network(launcher: subprocess.Popen[str]) -> str:
    """The id of that network."""
    assert launcher.poll() is None
    return "shared"


def test_a_host_selects_its_workers_and_a_worker_itself(network: str) -> None:
    done = invoked("run", "--on", network, "--hosts", "h1,h0.1", "--", "sh", "-c", SEAT)
    assert done.returncode == 0, done.stderr
    assert of_ranks(done.stdout) == [
        "[h0.1] rank 2 of 3: 0 of 1 on 1",
        "[h1.0] rank 0 of 3: 0 of 2 on 0",
        "[h1.1] rank 1 of 3: 1 of 2 on 0",
    ]


def test_a_rank_is_placed_on_a_worker_once(network: str) -> None:
    done = invoked("run", "--on", network, "--hosts", "h0,h0.1", "--", "true")
    assert done.returncode == 1
    assert "h0.1" in done.stderr


def test_a_running_network_shows_its_workers(network: str) -> None:
    refused = invoked("run", "--on", network, "--workers-per-host", "3", "--", "true")
    status = json.loads(invoked("status", network, "--json").stdout)
    assert "--workers-per-host belongs to the" in refused.stderr
    assert status["nodes"]["h0"]["workers"] == ["h0.0", "h0.1"]
    assert status["nodes"]["s0"]["workers"] == []


def test_a_worker_that_dies_is_named_with_its_rank(network: str) -> None:
    done = invoked("run", "--on", network, "--", sys.executable, "-c", RANK_2_DIES)
    assert done.returncode == 128 + signal.SIGKILL
    assert "rank 2 (h1.0) was killed by signal 9 (SIGKILL)" in done.stderr
    told = [line for line in done.stdout.splitlines() if "RankFailed" in line]
    assert {line.split()[0] for line in told} == {"[h0.0]", "[h0.1]", "[h1.1]"}
    assert all("rank 2 (h1.0)" in line for line in told)


def test_the_node_of_a_host_is_restarted_when_it_dies(
    network: str, launcher: subprocess.Popen[str]
) -> None:
    status = json.loads(invoked("status", network, "--json").stdout)
    os.kill(status["nodes"]["h0"]["pid"], signal.SIGKILL)
    said = read_until(launcher, "is back after")
    assert any("host h0 (pid" in line and "starting it again" in line for line in said), said
    done = invoked("run", "--on", network, "--", sys.executable, "-c", JOINS)
    assert done.returncode == 0, done.stderr
