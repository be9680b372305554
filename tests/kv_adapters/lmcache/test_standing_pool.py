"""LMCache's documented commands at a standing pool, whose members are killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("lmcache", reason="LMCache is not installed here: `make kv-adapters` has it")

from innet.cluster.emulation.runs import find_run
from tests.kv_adapters.lmcache.test_server import text_at
from tests.kv_adapters.running import (
    documented_command,
    documented_lmcache_file,
    free_ports,
    standing_pool,
)

KEYS = 3
POOL = """
name: prod
topology: star:2
pool:
  replicas: 2
  tenants:
    acme: {secret: acme.secret, memory: 64MiB}
"""
# The checker names a model by a path that does not exist: its weights have to be vouched for.
FOR_THE_CHECKER: Final = {
    "remote_url": "plugin://innet",
    "chunk_size": 256,
    "local_cpu": False,
    "max_local_cpu_size": 0.1,
}
CHECKER = (sys.executable, "-m", "lmcache.v1.basic_check", "--mode", "test_remote")
POLL_S = 0.3


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """The folder of a pool that is up, from which engines attach."""
    with standing_pool(POOL) as folder, pytest.MonkeyPatch.context() as env:
        env.setenv("LMCACHE_TRACK_USAGE", "false")
        yield folder


def kill_member(node: str) -> None:
    """Kill the pool's process on a host; it is started again."""
    [member] = [each.identity for each in find_run("prod").processes if each.node == node]
    member.send_signal(signal.SIGKILL)


def check_remote_store(folder: Path) -> None:
    """LMCache's checker, with the documented file, says that all of each operation was right."""
    config = folder / "lmcache.yaml"
    config.write_text(documented_lmcache_file(FOR_THE_CHECKER, weights="none"))
    done = subprocess.run(
        [*CHECKER, "--num-keys", str(KEYS), "--obj-size", "200000"],
        cwd=folder, env={**os.environ, "LMCACHE_CONFIG_FILE": str(config)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = (done.stdout + done.stderr).splitlines()
    rows = [line.split("|") for line in lines if "100.0%" in line and "|" in line]
    assert [row[5].strip() for row in rows] == [f"{KEYS}/{KEYS}"] * 4, lines[-40:]


@pytest.mark.timeout(900)
def test_a_remote_store_is_right_while_members_die(folder: Path) -> None:
    check_remote_store(folder)
    for node in ("h0.0", "h1.0"):
        kill_member(node)
        check_remote_store(folder)


def started_server(folder: Path, host: str, port: int) -> subprocess.Popen[bytes]:
    """LMCache's server of a host, by the documented command."""
    command = documented_command("LMCache", "lmcache server")
    for documented, tested in (
        ("lmcache server", f"{sys.executable} -m lmcache.cli.main server"),
        ("--port 5555", f"--port {port}"),
        ("--http-port 8080", f"--http-port {port + 1}"),
        ("--l1-size-gb 8", "--l1-size-gb 0.1"),
    ):
        assert documented in command
        command = command.replace(documented, tested)
    server = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"],
        cwd=folder, stdin=subprocess.DEVNULL, env={**os.environ, "INNET_HOST": host},
        start_new_session=True,
    )  # fmt: skip
    while not text_at(port + 1, "/healthcheck"):
        assert server.poll() is None
        threading.Event().wait(POLL_S)
    return server


def attached() -> set[str]:
    """The nodes of processes that have attached."""
    status = subprocess.run(
        [sys.executable, "-m", "innet", "status", "prod", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    jobs = json.loads(status.stdout)["jobs"]
    return {node for job in jobs if job["name"] != "pool" for node in job["hosts"]}


@pytest.mark.timeout(900)
def test_a_killed_server_gives_its_place_back_and_another_goes_on(folder: Path) -> None:
    port = free_ports(4)
    with ExitStack() as stack:
        one = started_server(folder, "h0", port)
        stack.callback(one.kill)
        other = started_server(folder, "h1", port + 2)
        stack.callback(other.kill)
        assert attached() == {"h0.1", "h1.1"}
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        again = started_server(folder, "h0", port)
        stack.callback(again.kill)
        assert attached() == {"h0.1", "h1.1"}
        assert other.poll() is None
        assert text_at(port + 3, "/healthcheck")
