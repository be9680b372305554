"""``innet doctor`` on networks that run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from innet.cluster.emulation.runs import find_run
from tests.cli.conftest import registry
from tests.cli.runs import invoked, read_until, started

__all__ = ["registry"]

SUMS = """
import os, sys, time
if sys.argv[1] == "late" and os.environ["RANK"] == "2":
    right = time.time
    time.time = lambda: right() + 3600  # all that this process says of the time is wrong
import innet, numpy, threading
comm = innet.init()
values = numpy.ones(1 << 18, numpy.float32)  # long enough that links work, and rarely wait
comm.allreduce(values)
print("joined", flush=True)
if comm.rank == 1 and sys.argv[1] == "late":
    threading.Event().wait()
while True:
    comm.allreduce(values)
"""


@contextmanager
def job(network: str, how: str) -> Iterator[None]:
    """A job of three ranks that adds up for ever.

    Where it is ``late``, its rank 1 stops, and the clock of rank 2 is an hour ahead.
    """
    command = [sys.executable, "-c", SUMS, how]
    with started("run", "--on", network, "--algorithm", "inc", "--", *command) as running:
        for _ in range(3):
            read_until(running, "joined")
        yield
        running.send_signal(signal.SIGINT)
        running.wait(60)


def doctor(network: str, *options: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
    """The exit code, and what was found by check and subject."""
    done = invoked("doctor", network, "--json", *options)
    document = json.loads(done.stdout)
    problems = [found for found in document["findings"] if found["level"] == "problem"]
    assert document["healthy"] == (not problems)
    return done.returncode, {(f["check"], f["subject"]): f for f in document["findings"]}


@contextmanager
def network(*options: str) -> Iterator[str]:
    with started("up", "star:3", "--name", "ill", *options) as launcher:
        read_until(launcher, "innet down ill")
        yield "ill"
        invoked("down", "ill")


@pytest.mark.usefixtures("registry")
def test_an_idle_network_is_healthy_and_then_a_late_rank_a_clock_and_a_switch_are_found() -> None:
    with network() as run:
        healthy = invoked("doctor", run)
        assert (healthy.returncode, healthy.stderr) == (0, "")
        assert "ill is healthy" in healthy.stdout

        with job(run, "late"):
            code, found = doctor(run)
            assert code == 1
            assert "Rank 1 (h1) is late" in found["straggling_rank", "rank 1"]["problem"]
            assert "s ahead of this one" in found["wrong_clock", "h2"]["problem"]
            assert ("wrong_clock", "h1") not in found

        switch = next(p for p in find_run(run).processes if p.node == "s0")
        os.kill(switch.identity.pid, signal.SIGSTOP)
        code, found = doctor(run)
        os.kill(switch.identity.pid, signal.SIGCONT)
        assert code == 1
        assert "s0 is stopped" in found["stopped_node", "s0"]["problem"]


@pytest.mark.jobs
@pytest.mark.usefixtures("registry")
def test_a_switch_with_two_slots_and_a_lossy_link_are_found() -> None:
    with network("--slots", "2", "--loss", "5%", "--rate", "100mbit") as run, job(run, "busy"):
        # A share of what was lost is told of 200 packets and more: ten times that in this time.
        code, found = doctor(run, "--seconds", "4")
        assert code == 1
        assert ("no_free_slot", "s0") in found
        assert ("lossy_link", "s0→h0") in found


@pytest.mark.jobs
@pytest.mark.netns
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("tc") is None or shutil.which("nsenter") is None,
    reason="changing a link's rate from outside needs root, tc and nsenter",
)
@pytest.mark.usefixtures("registry")
def test_a_link_slowed_down_from_outside_is_found() -> None:
    with network("--mode", "netns", "--rate", "50mbit") as run, job(run, "busy"):
        assert ("slow_link", "h1→s0") not in doctor(run)[1]
        inside = ["nsenter", f"--net={find_run(run).namespaces['h1']}", "tc"]
        disciplines = json.loads(_output(*inside, "-json", "qdisc", "show"))
        (link,) = (found for found in disciplines if found["kind"] == "tbf")
        _output(
            *inside, "qdisc", "change", "dev", link["dev"], "root", "handle", link["handle"],
            "tbf", "rate", "5mbit", "burst", "16k", "limit", "500k",
        )  # fmt: skip
        code, found = doctor(run)
        assert code == 1
        assert "of 50 Mbit/s" in found["slow_link", "h1→s0"]["problem"]


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.usefixtures("registry")
def test_the_doctor_without_a_network_reports_it() -> None:
    done = invoked("doctor")
    assert done.returncode == 1
    assert "no network is up" in done.stderr
