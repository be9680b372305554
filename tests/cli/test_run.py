"""``innet run``: real workers on a network of their own; whatever happens, nothing is left.

``test_up.py`` has what is the same on a network that is up, ``test_interrupts.py`` Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from .conftest import processes_of
from .runs import TIMEOUT_S, innet, invoked, read_until, started

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ALLREDUCE = """
import os, innet, numpy
comm = innet.init()
total = comm.allreduce(numpy.full(4096, comm.rank + 1, numpy.float32))
print(f"rank {comm.rank}: sum {sorted(set(total))} of {comm.size}")
print("threads", os.environ["OMP_NUM_THREADS"])
"""
RANK_1_FAILS = """
import os, innet, numpy
comm = innet.init()
comm.barrier()  # a rank that is still joining would hear of it in other words
if comm.rank == 1:
    os._exit(3)
comm.allreduce(numpy.ones(4096, numpy.float32))
"""


def test_workers_run_on_the_chosen_hosts_and_their_lines_name_their_node() -> None:
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


def test_the_exit_code_is_that_of_the_first_failed_worker() -> None:
    done = innet("run", "star:2", "--", sys.executable, "-c", RANK_1_FAILS)
    assert done.returncode == 3
    assert "h1" in done.stderr
    assert "exited with code 3" in done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("[h0]")]
    assert any("RankFailed" in line and "h1" in line for line in told), done.stdout


def test_down_removes_the_remains_of_kill_9(registry: Path) -> None:
    with started("run", "star:2", "--", "sh", "-c", "echo working; exec sleep 600") as launcher:
        read_until(launcher, "working")
        launcher.kill()
        launcher.wait(TIMEOUT_S)
    assert "ended: innet down" in invoked("status").stdout
    down = innet("down")
    assert (down.returncode, down.stderr) == (0, "")
    assert "removed its remains" in down.stdout
    assert processes_of(registry) == []


def test_a_bare_down_does_not_end_the_job_of_another_terminal() -> None:
    with started("run", "star:2", "--", "sh", "-c", "echo working; exec sleep 600") as launcher:
        read_until(launcher, "working")
        down = invoked("down")
        assert down.returncode == 1
        assert "by its ID" in down.stderr
        assert launcher.poll() is None
        assert "star-2" in invoked("status").stdout
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(TIMEOUT_S) == 143


def test_a_run_with_a_closed_output_ends() -> None:
    with started("run", "star:2", "--", "yes") as launcher:
        read_until(launcher, "] y")
        assert launcher.stdout is not None
        launcher.stdout.close()
        assert launcher.wait(TIMEOUT_S) == 143
        assert launcher.stderr is not None
        assert "Traceback" not in launcher.stderr.read()
