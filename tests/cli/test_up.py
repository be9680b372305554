"""``innet up``, and everything that another terminal does with a network that is up."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.node_reader import NodeReader

from .conftest import processes_of
from .runs import INNET, TIMEOUT_S, innet, invoked, of_ranks, read_until, started

ALLREDUCE = """
import innet, numpy, sys
comm = innet.init()
print("sum", comm.allreduce(numpy.full(64, float(sys.argv[1]), numpy.float32))[0])
"""
UNKNOWN_ALGORITHM = "import innet; innet.init(algorithm='rng')"
RANK_1_LACKS_DATA = "import innet; comm = innet.init()\nif comm.rank: raise ValueError('no data')"
SLEEP = ["sh", "-c", "echo working; exec sleep 600"]


@pytest.fixture(scope="module")
def network(registry: Path) -> Iterator[str]:
    """The id of a network that is up, with two hosts."""
    with started("up", "star:2", "--name", "lab") as launcher:
        read_until(launcher, "innet down lab")
        yield "lab"
        down = innet("down", "lab")
        assert (down.returncode, down.stdout) == (0, "lab: ended\n")
        assert launcher.wait(TIMEOUT_S) == 143
        assert launcher.communicate()[1] == ""
    assert processes_of(registry) == []
    assert list(registry.glob("*")) == []


def sleepers(registry: Path) -> list[str]:
    return [command for command in processes_of(registry) if command.startswith("sleep")]


def test_jobs_run_on_a_network_one_after_the_other(network: str) -> None:
    for value in (1.0, 5.0):  # the second must not get the first's sum from a cache
        command = [sys.executable, "-c", ALLREDUCE, str(value)]
        done = invoked("run", "--on", network, "--algorithm", "inc", "--", *command)
        assert done.returncode == 0, done.stderr
        expected = [f"[{host}] sum {2 * value}" for host in ("h0", "h1")]
        assert sorted(done.stdout.splitlines()) == expected


def test_a_job_has_the_environment_and_directory_of_its_terminal(
    network: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*INNET, "run", "--on", network, "--hosts", "h1", "--", "sh", "-c", "echo $COLOUR; pwd"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "COLOUR": "mauve"},
    )
    assert of_ranks(done.stdout) == [f"[h1] {tmp_path}", "[h1] mauve"]


def test_run_with_the_name_of_a_network_that_is_up_shows_the_option(network: str) -> None:
    done = invoked("run", network, "--", "python", "my script.py")
    assert done.returncode == 1
    assert f"innet run --on {network} -- python 'my script.py'" in done.stderr


def test_the_exit_code_of_a_job_is_returned(network: str) -> None:
    done = invoked("run", "--on", network, "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert "exited with code 7" in done.stderr


def test_exit_code_names_the_signal_that_ended_a_worker(network: str) -> None:
    done = invoked("run", "--on", network, "--hosts", "h0", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert "SIGKILL" in done.stderr


def test_a_program_that_does_not_exist_is_named(network: str) -> None:
    done = invoked("run", "--on", network, "--", "nosuchprogram")
    assert done.returncode == 1
    assert "error: cannot start 'nosuchprogram' for h0" in done.stderr.splitlines()[-1]


def test_an_elastic_job_names_the_lost_rank_and_the_cause(network: str) -> None:
    command = (sys.executable, "-c", RANK_1_LACKS_DATA)
    done = invoked("run", "--on", network, "--elastic", "--", *command)
    assert done.returncode == 0
    (lost,) = [line for line in done.stderr.splitlines() if line.startswith("lost: ")]
    assert lost.startswith("lost: h1 (pid ")
    assert lost.endswith("exited with code 1; it failed with ValueError: no data")
    assert "all workers" not in done.stderr


def test_an_unknown_algorithm_in_the_program_is_an_error_on_every_rank(network: str) -> None:
    done = invoked("run", "--on", network, "--", sys.executable, "-c", UNKNOWN_ALGORITHM)
    assert done.returncode == 1
    for host in ("h0", "h1"):
        told = [line for line in done.stdout.splitlines() if line.startswith(f"[{host}]")]
        assert any("unknown algorithm 'rng'" in line for line in told), done.stdout


def test_a_host_with_a_job_is_refused_to_another(network: str) -> None:
    with started("run", "--on", network, "--hosts", "h0", "--job-name", "a", "--", *SLEEP) as first:
        read_until(first, "working")
        second = invoked("run", "--on", network, "--", "true")
        assert second.returncode == 1
        assert "h0 has a job already (a)" in second.stderr
        assert "Choose among h1" in second.stderr
        twin = invoked("run", "--on", network, "--hosts", "h1", "--job-name", "a", "--", "true")
        assert "a job named a is running already" in twin.stderr
        beside = invoked("run", "--on", network, "--hosts", "h1", "--weight", "3", "--", "true")
        assert beside.returncode == 0
        jobs = json.loads(invoked("status", network, "--json").stdout)["jobs"]
        assert [(job["name"], job["hosts"], job["weight"]) for job in jobs] == [("a", ["h0"], 1)]
        first.send_signal(signal.SIGINT)
        assert first.wait(TIMEOUT_S) == 130


def test_a_signal_ends_the_job_and_not_the_network(network: str, registry: Path) -> None:
    with started("run", "--on", network, "--", *SLEEP) as job:
        read_until(job, "working")
        assert sleepers(registry)
        job.send_signal(signal.SIGTERM)
        assert job.wait(TIMEOUT_S) == 143
        assert "Traceback" not in job.communicate()[1]
    assert sleepers(registry) == []
    assert invoked("run", "--on", network, "--", "true").returncode == 0


def test_a_job_does_not_outlive_a_killed_terminal(network: str, registry: Path) -> None:
    with started("run", "--on", network, "--", *SLEEP) as job:
        read_until(job, "working")
        workers = [p.identity for p in find_run(network).processes if p.node in ("h0", "h1")]
        pidfds = [os.pidfd_open(worker.pid) for worker in workers if worker.is_alive()]
        assert pidfds
        job.kill()
        for pidfd in pidfds:
            assert select.select([pidfd], [], [], TIMEOUT_S)[0], "a worker goes on"
            os.close(pidfd)
    _wait_until_free(network)


def _wait_until_free(network: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while invoked("run", "--on", network, "--", "true").returncode != 0:
        assert time.monotonic() < deadline_s, "the network stays busy"


def test_status_lists_a_network(network: str) -> None:
    listed = invoked("status").stdout
    assert network in listed
    assert "local" in listed
    (run,) = json.loads(invoked("status", "--json").stdout)["runs"]
    assert (run["run_id"], run["stale"]) == (network, False)


def test_status_shows_the_counters_of_the_nodes(network: str) -> None:
    document = json.loads(invoked("status", network, "--json").stdout)
    switch = document["nodes"]["s0"]
    assert switch["kind"] == "switch"
    assert {link["peer"] for link in switch["links"]} == {"h0", "h1"}
    text = invoked("status", network).stdout
    for title in ("Nodes", "Faces"):
        assert title in text
    detail = invoked("status", "--node", "s0").stdout
    for title in ("Tables", "Reducer", "Routes", "Rules"):
        assert title in detail


def test_status_shows_the_job_that_runs(network: str) -> None:
    program = (
        "import innet, time; comm = innet.init(); print('joined', flush=True); time.sleep(600)"
    )
    with started(
        "run", "--on", network, "--algorithm", "inc", "--", sys.executable, "-c", program
    ) as job:
        read_until(job, "joined")
        document = json.loads(invoked("status", network, "--json").stdout)
        with NodeReader(with_rules=False) as reader:
            sockets = {"s0": find_run(network).control_socket("s0")}
            without_rules = reader.read(sockets, TIMEOUT_S).nodes["s0"]
        job.send_signal(signal.SIGINT)
        job.wait(TIMEOUT_S)
    assert set(document["nodes"]) == {"s0", "h0", "h1"}
    assert without_rules.keys() == document["nodes"]["s0"].keys()
    assert without_rules["rules"] == []
    (group,) = document["groups"]
    assert (group["algorithm"], group["ranks"]) == ("inc", ["h0", "h1"])
    assert [rule["interval"] for rule in document["nodes"]["s0"]["rules"]] == ["0-1"]


def test_the_name_of_a_running_network_is_refused(network: str) -> None:
    second = innet("up", "star:2", "--name", network)
    assert second.returncode == 1
    assert f"a run {network} exists already" in second.stderr


@pytest.mark.usefixtures("network")
def test_a_detached_network_is_ready_when_the_command_returns(registry: Path) -> None:
    up = innet("up", "star:2", "--name", "hidden", "--detach")
    assert (up.returncode, up.stderr) == (0, "")
    assert "innet run --on hidden" in up.stdout
    job = invoked("run", "--on", "hidden", "--", "sh", "-c", "echo $RANK")
    assert of_ranks(job.stdout) == ["[h0] 0", "[h1] 1"]
    assert invoked("down", "hidden").stdout == "hidden: ended\n"
    assert not (registry / "hidden").exists()


@pytest.mark.usefixtures("network")
def test_a_detached_network_that_cannot_start_states_the_reason() -> None:
    up = innet("up", "sta2", "--detach")
    assert up.returncode == 1
    assert "no topology file 'sta2'" in up.stderr


def test_all_ranks_learn_of_a_dead_switch_and_ctrl_c_takes_the_network_down(
    network: str, registry: Path
) -> None:
    settings = ["--set", "recovery.switch_restarts=0"]
    with started("up", "star:2", "--name", "broken", *settings) as launcher:
        read_until(launcher, "innet down broken")
        switch = json.loads(invoked("status", "broken", "--node", "s0", "--json").stdout)
        os.kill(switch["pid"], signal.SIGKILL)
        read_until(launcher, "switch s0")
        command = [sys.executable, "-c", ALLREDUCE, "1"]
        job = invoked("run", "--on", "broken", "--algorithm", "inc", "--", *command)
        assert job.returncode == 1
        for host in ("h0", "h1"):
            told = [line for line in job.stdout.splitlines() if line.startswith(f"[{host}]")]
            assert any("switch s0" in line and "SIGKILL" in line for line in told), job.stdout
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(TIMEOUT_S) == 130
        assert "Traceback" not in launcher.communicate()[1]
    assert [path.name for path in registry.glob("*")] == [network]
