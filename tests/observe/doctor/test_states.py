"""The states of docs/monitoring.md, made with real processes, and what the doctor finds in each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from innet.cluster.emulation.runs import find_run
from tests.cli.conftest import registry
from tests.cli.runs import TIMEOUT_S, invoked, read_until, started
from tests.faults.links import set_link

__all__ = ["registry"]
pytestmark = pytest.mark.usefixtures("registry")

SURVIVES = """
import innet, numpy, threading
from innet.errors import RankFailed
comm = innet.init()
print("joined", flush=True)
try:
    while True:
        comm.allreduce(numpy.ones(1 << 14, numpy.float32))
except RankFailed:
    print("survived", flush=True)
    threading.Event().wait()
"""
STARTS = """
import os, threading, innet
print("runs", flush=True)
if os.environ["RANK"] == "0":
    innet.init()
threading.Event().wait()
"""


@contextmanager
def network(topology: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    with started("up", topology, "--name", "ill", *options) as launcher:
        read_until(launcher, "innet down ill")
        yield launcher
        invoked("down", "ill")


@contextmanager
def job(program: str, ready: str, *options: str, ranks: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", program]
    with started("run", "--on", "ill", *options, "--", *command) as running:
        for _ in range(ranks):
            read_until(running, ready)
        yield running
        running.send_signal(signal.SIGINT)
        running.wait(60)


def diagnosed() -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """The exit code of the doctor, its findings, and all that it printed."""
    done = invoked("doctor", "ill", "--json")
    document = json.loads(done.stdout)
    return done.returncode, document["findings"], document


def pid_of(node: str) -> int:
    return next(p.identity.pid for p in find_run("ill").processes if p.node == node)


def states() -> dict[str, str]:
    document = json.loads(invoked("status", "ill", "--json").stdout)
    return {name: node["state"] for name, node in document["state"]["nodes"].items()}


def test_a_killed_spine_is_the_one_cause_of_what_follows() -> None:
    with network("leaf-spine:2x2x1", "--set", "recovery.restart_delay_s=60"):
        killed = pid_of("spine0")
        deadline_s = time.monotonic() + TIMEOUT_S
        os.kill(killed, signal.SIGKILL)
        while states()["spine0"] != "restarting":  # the launcher has not noticed yet
            assert time.monotonic() < deadline_s
        code, (first, *others), _ = diagnosed()
        assert (code, first["check"], first["subject"]) == (1, "restarting_node", "spine0")
        assert "spine0 was killed by signal 9 (SIGKILL)" in first["problem"]
        assert "end it" not in first["remedy"]
        assert {found["because"] for found in others} <= {"spine0"}
        assert states()["spine0"] == "restarting"
        assert "dead" not in invoked("doctor", "ill").stdout
        metrics = invoked("metrics", "ill", "--once").stdout
        assert 'innet_node_state{machine="",node="spine0",state="restarting"} 1.0' in metrics
        assert 'innet_node_up{node="spine0"} 0.0' in metrics


def test_a_killed_rank_is_lost_while_its_group_lives() -> None:
    with network("star:3"), job(SURVIVES, "joined", "--elastic", ranks=3) as running:
        os.kill(pid_of("h1"), signal.SIGKILL)
        for _ in range(2):
            read_until(running, "survived")
        _, findings, _ = diagnosed()
        assert states()["h1"] in ("lost", "off")  # off: its group is forgotten
        for found in findings:
            assert "h1" in (found["subject"], found["because"]), found


def test_ranks_that_start_are_no_findings() -> None:
    with network("star:3"), job(STARTS, "runs", ranks=3):
        code, findings, document = diagnosed()
        assert (code, findings) == (0, [])
        assert document["starting"] == ["h0", "h1", "h2"]
        assert {states()[host] for host in ("h0", "h1", "h2")} == {"starting"}


def test_a_killed_launcher_is_the_only_finding_and_metrics_go_on() -> None:
    with (
        network("star:2") as launcher,
        started("metrics", "ill", "--port", "0") as exporter,
    ):
        assert exporter.stderr is not None
        while "metrics of ill" not in exporter.stderr.readline():
            pass
        launcher.send_signal(signal.SIGSTOP)
        controller = next(p for p in find_run("ill").processes if p.label == "controller")
        controller.identity.send_signal(signal.SIGSTOP)
        code, findings, _ = diagnosed()
        stopped = ["stopped_launcher", "stopped_controller"]
        assert (code, [found["check"] for found in findings]) == (1, stopped)
        controller.identity.send_signal(signal.SIGCONT)
        launcher.kill()
        launcher.wait()
        code, (found,), _ = diagnosed()
        assert (code, found["check"]) == (1, "ended_launcher")
        assert set(states().values()) == {"ended"}
        assert "ended: innet down" in invoked("status").stdout
        assert "innet_run_up 0.0" in invoked("metrics", "ill", "--once").stdout
        while "waiting until it is launched again" not in exporter.stderr.readline():
            pass
        refused = invoked("run", "--on", "ill", "--", "true")
        assert refused.returncode != 0
        assert "may still be starting" not in refused.stderr
        exporter.send_signal(signal.SIGINT)
        exporter.wait(60)


@pytest.mark.netns
@pytest.mark.jobs
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None,
    reason="cutting a link with the kernel's tools needs root and nsenter",
)
def test_a_cut_link_comes_before_routes_and_ranks() -> None:
    with network("star:3", "--mode", "netns"), job(SURVIVES, "joined", "--elastic", ranks=3):
        link = next(x for x in json.loads(invoked("status", "ill", "--json").stdout)["kernel_links"]
                    if x["link"][0] == "h1")  # fmt: skip
        set_link("ill", "h1", link["link"][1], "down")
        code, (first, *others), _ = diagnosed()
        assert (code, first["check"], first["subject"]) == (1, "cut_link", "h1--s0")
        assert "namespaces" in first["remedy"]
        assert {found["because"] for found in others} <= {"h1--s0"}


@contextmanager
def starving(pid: int) -> Iterator[None]:
    """Let a process run only when nothing else wants its processor, which another program uses."""
    processor = min(os.sched_getaffinity(0))
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        os.sched_setaffinity(thread, {processor})
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    burn = f"import os; os.sched_setaffinity(0, {{{processor}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", burn]) as burner:
        yield
        burner.kill()


@pytest.mark.jobs
def test_a_node_without_processor_explains_slow_links_and_late_ranks() -> None:
    with network("star:3", "--rate", "500mbit"), job(SURVIVES, "joined", ranks=3):
        with starving(pid_of("s0")):
            code, findings, _ = diagnosed()
        assert code == 1
        starved = {found["subject"] for found in findings if found["check"] == "starved_node"}
        assert "s0" in starved
        others = [found for found in findings if found["subject"] not in starved]
        assert {found["because"] for found in others} <= starved
        assert not [found for found in findings if "iperf3" in found["remedy"]]
