"""The environment of workers: ranks, threads, the interpreter, settings, and forked children."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from innet.cluster.launch.jobs import (
    THREAD_VARIABLES,
    Rendezvous,
    Seat,
    rank_variables,
    search_path,
    seats,
    thread_variables,
)
from innet.settings import RecoverySettings, Settings
from innet.topology import load_topology

INNET = Path(sys.executable).with_name("innet")
_MEETING = Rendezvous(4, "10.0.0.1", 29500, Path("/run/j1.rendezvous"), "run1", max_restarts=2)

# What torchrun sets: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
_OF_TORCHRUN = (
    *("LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"),
    *("ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_MAX_RESTARTS"),
    *("TORCHELASTIC_RUN_ID",),
)


def run(*command: str, stdin: str, environment: dict[str, str] | None = None) -> str:
    """The output of a job on two hosts, and innet's own messages about it."""
    done = subprocess.run(
        [INNET, "run", "star:2", *command],
        input=stdin,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def rendezvous_at(endpoint: str | None, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Create the rendezvous of an agent that a job starts, by default at the job's endpoint."""
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

    meeting = replace(_MEETING, file=file)
    environment = rank_variables(meeting, Seat(0, 0, 4, 0, 1), "127.0.0.1")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    endpoint = endpoint or environment["PET_RDZV_ENDPOINT"]
    backend = environment["PET_RDZV_BACKEND"]
    parameters = RendezvousParameters(backend, endpoint, "again", 1, 1, local_addr="127.0.0.1")
    get_rendezvous_handler(parameters).next_rendezvous()


@pytest.mark.torch
def test_agents_of_torchrun_meet_through_a_file_of_the_job(tmp_path, monkeypatch) -> None:
    rendezvous_at(None, monkeypatch, tmp_path / "j1.rendezvous")
    assert [path.name for path in tmp_path.iterdir()] == ["j1.rendezvous"]


@pytest.mark.torch
def test_agents_of_torchrun_meet_at_the_users_endpoint(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rendezvous_at("localhost:0", monkeypatch, tmp_path / "j1.rendezvous")
    assert not list(tmp_path.iterdir())  # neither the job's file nor one named localhost:0


def test_a_rank_has_the_variables_of_torchrun() -> None:
    found = rank_variables(_MEETING, Seat(3, 3, 4, 0, 1), "10.0.0.4")
    assert not [name for name in _OF_TORCHRUN if name not in found]
    assert {found[name] for name in ("RANK", "GROUP_RANK", "NODE_RANK", "ROLE_RANK")} == {"3"}
    assert found["LOCAL_RANK"] == "0"
    assert found["TORCHELASTIC_MAX_RESTARTS"] == "2"


def test_ranks_of_one_host_are_counted_on_it() -> None:
    topology = load_topology("star:3").with_workers(2)
    found = seats(topology, ["h2.0", "h0.0", "h2.1", "h1.1"])
    assert [(s.rank, s.machine, s.local_rank, s.local_ranks) for s in found] == [
        (0, 0, 0, 2),
        (1, 1, 0, 1),
        (2, 0, 1, 2),
        (3, 2, 0, 1),
    ]
    third = rank_variables(_MEETING, found[2], "10.0.0.3")
    names = ("RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [third[name] for name in names] == ["2", "0", "3", "1", "2"]


@pytest.mark.parametrize("ranks", [1, 2, 3, 64])
def test_ranks_divide_the_processors(ranks: int) -> None:
    share = max(1, len(os.sched_getaffinity(0)) // ranks)
    assert thread_variables({}, ranks) == dict.fromkeys(THREAD_VARIABLES, str(share))


def test_variables_of_the_user_are_kept() -> None:
    assert thread_variables({"OMP_NUM_THREADS": "3"}, 8) == {}
    assert "MKL_NUM_THREADS" not in thread_variables({"MKL_NUM_THREADS": "3"}, 8)
    assert thread_variables({"OMP_NUM_THREADS": "3"}, 8, threads=5)["OMP_NUM_THREADS"] == "5"


def test_the_interpreter_with_innet_is_first_in_the_path() -> None:
    own = str(Path(sys.executable).parent)
    assert search_path({"PATH": f"/usr/bin:{own}:/bin"}) == f"{own}:/usr/bin:/bin"
    assert search_path({}).startswith(own)


def test_ranks_find_their_share_of_the_processors_their_input_and_the_interpreter() -> None:
    program = (
        "import innet, os, sys; share = os.environ['OMP_NUM_THREADS'];"
        "print('rank', os.environ['RANK'], 'threads', share, repr(sys.stdin.read()))"
    )
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    environment["PATH"] = "/usr/bin:/bin"  # where another interpreter may be
    said = run("--", "python", "-c", program, stdin="some\ninput", environment=environment)
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert f"rank 0 threads {share} 'some\\ninput'" in said
    assert f"rank 1 threads {share} ''" in said
    assert said.count("each rank computes with") == 1


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.jobs
def test_torchrun_prints_only_what_its_workers_print(tmp_path: Path) -> None:
    program = tmp_path / "ranks.py"
    program.write_text(
        "import os; print(os.environ['RANK'], os.environ['OMP_NUM_THREADS'], flush=True)"
    )
    torchrun = ("--", "python", "-m", "torch.distributed.run", str(program))
    said = [
        line
        for line in run("--threads", "3", *torchrun, stdin="").splitlines()
        if line.startswith("[h")
    ]
    assert sorted(said) == ["[h0] 0 3", "[h1] 1 3"]


def test_a_failing_forked_child_does_not_fail_the_rank(run_job):
    result = run_job("forks.py", topology="star:2")
    assert result.failure == ""
    for node in ("h0", "h1"):
        said = result.said(node)
        assert "the child ended with 1, the sum is 2" in said
        assert said.count("was forked from the worker of this host") == 3, said


def test_settings_round_trip_including_never_as_a_time(tmp_path: Path) -> None:
    settings = Settings(recovery=RecoverySettings(partition_timeout_s=math.inf))
    path = tmp_path / "settings.json"
    path.write_text(settings.model_dump_json(indent=2))
    assert Settings.load(path) == settings
