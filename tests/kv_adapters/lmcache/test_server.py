"""The documented command of LMCache's server, on two hosts without a GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("lmcache", reason="LMCache is not installed here: `make kv-adapters` has it")

from tests.kv_adapters.running import documented_command, free_ports

POLL_S = 0.3


def text_at(port: int, path: str) -> str:
    """What a server answers; nothing before it does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


@pytest.mark.timeout(600)
def test_servers_start_without_a_gpu_and_are_members_of_one_pool(tmp_path: Path) -> None:
    first = free_ports(5)
    metrics = first + 4
    command = documented_command("LMCache")
    for documented, tested in (
        ("innet run", f"{sys.executable} -m innet run --metrics-port {metrics}"),
        ("lmcache server", f"{sys.executable} -m lmcache.cli.main server"),
        ("--port 555$RANK", f"--port $(({first} + RANK))"),
        ("--http-port 808$RANK", f"--http-port $(({first} + 2 + RANK))"),
        ("--l1-size-gb 8", "--l1-size-gb 0.1"),
        ("16GiB", "64MiB"),
    ):
        assert documented in command
        command = command.replace(documented, tested)
    output = tmp_path / "output"
    with output.open("wb") as file:
        run = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LMCACHE_TRACK_USAGE": "false"},
            start_new_session=True,
        )
    try:
        for host in range(2):
            while not text_at(first + 2 + host, "/healthcheck"):
                assert run.poll() is None, output.read_text()[-5000:]
                assert "starting it anew" not in output.read_text(), output.read_text()[-5000:]
                threading.Event().wait(POLL_S)
        for host in range(2):
            labels = f'engine="lmcache",model="",node="h{host}",tenant="acme"'
            member = f"innet_kv_lookups_total{{{labels}}}"
            while member not in text_at(metrics, "/metrics"):
                threading.Event().wait(POLL_S)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()
