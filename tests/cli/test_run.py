"""``innet run``: real workers on a network of their own; whatever happens, nothing is left."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from .conftest import processes_of
from .runs import TIMEOUT_S, innet, read_until, started

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ALLREDUCE = """
import os, innet, numpy
comm = innet.init()
total = comm.allreduce(numpy.full(4096, comm.rank + 1, numpy.float32))
print(f"rank {comm.rank}: sum {sorted(set(total))} of {comm.size}")
print("threads", os.environ["OMP_NUM_THREADS"])
"""
UNKNOWN_ALGORITHM = "import innet; innet.init(algorithm='rng')"
RANK_1_FAILS = """
import os, innet, numpy
comm = innet.init()
comm.barrier()  # a rank that is still joining would hear of it in other words
if comm.rank == 1:
    os._exit(3)
comm.allreduce(numpy.ones(4096, numpy.float32))
"""


def test_workers_on_the_chosen_hosts_reduce_and_their_lines_carry_their_node() -> None:
    command = ("--hosts", "h2,h0", "--threads", "3", "--", sys.executable, "-c", ALLREDUCE)
    done = innet("run", "star:3", "--rate", "1gbit", *command)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "[h0] rank 1: sum [np.float32(3.0)] of 2",
        "[h0] threads 3",
        "[h2] rank 0: sum [np.float32(3.0)] of 2",
        "[h2] threads 3",
    ]
    assert "all workers succeeded" in done.stderr


def test_exit_code_is_that_of_the_first_worker_that_failed() -> None:
    done = innet("run", "star:2", "--", sys.executable, "-c", RANK_1_FAILS)
    assert done.returncode == 3
    assert "h1" in done.stderr
    assert "exited with code 3" in done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("[h0]")]
    assert any("RankFailed" in line and "h1" in line for line in told), done.stdout


def test_an_elastic_job_says_whom_it_lost() -> None:
    done = innet("run", "star:2", "--elastic", "--", "sh", "-c", "exit $((3 * RANK))")
    assert done.returncode == 0
    assert "lost: h1 (pid " in done.stderr
    assert "exited with code 3" in done.stderr
    assert "all workers" not in done.stderr


def test_an_elastic_job_says_why_it_lost_a_worker() -> None:
    fails = "import innet; comm = innet.init()\nif comm.rank: raise ValueError('no data')"
    done = innet("run", "star:2", "--elastic", "--", sys.executable, "-c", fails)
    assert done.returncode == 0
    (lost,) = [line for line in done.stderr.splitlines() if line.startswith("lost: ")]
    assert lost.endswith("exited with code 1; it failed with ValueError: no data")


def test_exit_code_names_the_signal_that_ended_a_worker() -> None:
    done = innet("run", "star:2", "--hosts", "h0", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert "SIGKILL" in done.stderr


def test_a_program_that_does_not_exist_is_named() -> None:
    done = innet("run", "star:2", "--", "nosuchprogram")
    assert done.returncode == 1
    assert "error: cannot start 'nosuchprogram' for h0" in done.stderr.splitlines()[-1]


def test_an_unknown_algorithm_in_the_program_is_an_error_on_every_rank() -> None:
    done = innet("run", "star:2", "--", sys.executable, "-c", UNKNOWN_ALGORITHM)
    assert done.returncode == 1
    for host in ("h0", "h1"):
        told = [line for line in done.stdout.splitlines() if line.startswith(f"[{host}]")]
        assert any("unknown algorithm 'rng'" in line for line in told), done.stdout


def test_ctrl_c_ends_everything() -> None:
    with started("run", "star:2", "--", "sh", "-c", "echo working; exec sleep 600") as launcher:
        read_until(launcher, "working")
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(TIMEOUT_S) == 130
        assert "Traceback" not in launcher.communicate()[1]


def test_down_removes_what_kill_9_has_left(registry: Path) -> None:
    with started("run", "star:2", "--", "sh", "-c", "echo working; exec sleep 600") as launcher:
        read_until(launcher, "working")
        launcher.kill()
        launcher.wait(TIMEOUT_S)
    assert "stale" in innet("status").stdout
    down = innet("down")
    assert (down.returncode, down.stderr) == (0, "")
    assert "removed its remains" in down.stdout
    assert processes_of(registry) == []


def test_a_bare_down_does_not_end_somebody_elses_job() -> None:
    with started("run", "star:2", "--", "sh", "-c", "echo working; exec sleep 600") as launcher:
        read_until(launcher, "working")
        down = innet("down")
        assert down.returncode == 1
        assert "by its ID" in down.stderr
        assert launcher.poll() is None
        assert "star-2" in innet("status").stdout
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(TIMEOUT_S) == 143


def test_a_run_whose_output_nobody_reads_any_more_ends() -> None:
    with started("run", "star:2", "--", "yes") as launcher:
        read_until(launcher, "] y")
        assert launcher.stdout is not None
        launcher.stdout.close()
        assert launcher.wait(TIMEOUT_S) == 143
        assert launcher.stderr is not None
        assert "Traceback" not in launcher.stderr.read()
