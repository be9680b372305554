"""Ranks that stop, are busy for long or disagree, in real jobs: which rank an error names."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.cli.runs import innet

pytestmark = pytest.mark.slow

BUSY = """
import ctypes, innet, numpy as np
comm = innet.init()
if comm.rank == 1:
    ctypes.PyDLL(None).sleep(8)  # as a long call into a library that keeps the interpreter
print("sum", comm.allreduce(np.ones(1))[0], flush=True)
"""

STOPPED = """
import os, signal, innet, numpy as np
comm = innet.init(timeout_s=4)
comm.barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    comm.allreduce(np.ones(1))
except innet.errors.DeadlineExceeded as error:
    print("told:", error, flush=True)
    raise
"""


def run(program: str, *options: str) -> tuple[str, int]:
    done = innet(
        "run",
        "star:3",
        *(word for option in options for word in ("--set", option)),
        "--set",
        "recovery.heartbeat_interval_s=0.2",
        "--",
        sys.executable,
        "-c",
        program,
    )
    return done.stdout + done.stderr, done.returncode


def test_a_rank_in_a_call_that_holds_the_gil_is_not_killed() -> None:
    said, code = run(BUSY, "recovery.worker_timeout_s=2")
    assert code == 0, said
    assert said.count("sum 3.0") == 3, said


@pytest.mark.faults
def test_a_setting_kills_such_a_rank_and_is_named() -> None:
    said, code = run(BUSY, "recovery.worker_timeout_s=2", "recovery.interpreter_timeout_s=4")
    assert code != 0
    assert "RankFailed" in said, said
    assert "rank 1 (h1) has not answered for 4 s (recovery.interpreter_timeout_s)" in said, said


def test_the_last_line_names_the_stopped_rank_that_was_killed_and_why() -> None:
    said, code = run(STOPPED.replace("timeout_s=4", "timeout_s=60"), "recovery.worker_timeout_s=2")
    assert code == 128 + signal.SIGKILL
    assert said.splitlines()[-1].startswith(
        "rank 1 (h1) has not answered for 2 s (recovery.worker_timeout_s): its process is stopped "
        "or cut off, so it was killed by signal 9 (SIGKILL)"
    ), said


@pytest.mark.parametrize("algorithm", ["inc", pytest.param("ring", marks=pytest.mark.jobs)])
def test_a_timeout_names_only_the_stopped_rank(algorithm: str) -> None:
    program = STOPPED.replace("timeout_s=4", f"timeout_s=4, algorithm={algorithm!r}")
    said, _ = run(program, "recovery.worker_timeout_s=30")
    told = [line for line in said.splitlines() if "told:" in line]
    assert told, said
    for line in told:
        assert "rank 1 (h1) did not answer" in line, said
        assert "rank 0" not in line, said
        assert "rank 2" not in line, said
    failed = [line for line in said.splitlines() if "RankFailed:" in line]
    for line in failed:  # who hears from a rank that gave up before
        assert "rank 1 (h1) did not answer" in line, said
        assert "failed with" not in line, said


PROGRAM = """
import os, innet, numpy as np
try:
    innet.init(algorithm="ring" if os.environ["RANK"] == "1" else "inc")
except innet.errors.ControlError as error:
    print("told:", error, flush=True)
print("sum", innet.init(algorithm="inc").allreduce(np.ones(1))[0], flush=True)
"""


def test_different_algorithms_fail_on_all_ranks_at_once_and_ranks_can_join_again() -> None:
    done = innet("run", "star:3", "--", sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "told:" in line]
    assert len(told) == 3, done.stdout
    for line in told:
        assert "rank 1 (h1)" in line
        assert "algorithm=ring" in line
        assert "algorithm=inc" in line
    assert done.stdout.count("sum 3.0") == 3, done.stdout
