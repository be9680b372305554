"""Blocks between real processes: jobs that share a tenant's secret or not, several on one host."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from innet.cli.run_tables import run_view
from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import JobFailed, Session
from innet.cluster.run_status import RunStatus, read_run_status
from innet.kv.tenant import Tenant
from innet.topology import load_topology
from tests.conftest import RunJob
from tests.said import Said

WORKER = Path(__file__).parent / "workers" / "shared_block.py"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(b"a secret of two jobs and no other")
    path.chmod(0o600)
    return path


def shown(status: RunStatus) -> str:
    """What ``innet status`` prints."""
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(run_view(status))
    return console.export_text()


def test_only_jobs_with_the_same_secret_share_blocks(secret: Path) -> None:
    said = Said()
    prefix = Tenant.from_file("acme", secret).prefix

    async def run() -> tuple[RunStatus, dict[str, Any]]:
        async with Session(load_topology("star:3"), output=said) as session:

            def start(role: str, host: str) -> Awaitable[Any]:
                argv = [sys.executable, str(WORKER), role, str(secret)]
                return asyncio.ensure_future(session.run_workers(argv, hosts=(host,)))

            publishing = start("publisher", "h0")
            await said.until(("h0", "published"))
            reading = start("reader", "h1")
            await said.until(("h1", "here"), ("h0", "members: h0, h1"))
            await start("outsider", "h2")
            record = find_run(session.network.run_id)
            during = await asyncio.to_thread(read_run_status, record)
            (reader,) = (p for p in session.network.processes.processes if p.label == "h1")
            os.kill(reader.identity.pid, signal.SIGKILL)
            with pytest.raises(JobFailed):
                await reading
            await said.until(("h0", "members: h0"))
            await publishing
            return during, (await session.status())["s0"]

    during, after = asyncio.run(run())
    assert said.by("h2") == ["refused"]
    assert during.nodes["s0"]["node"]["forbidden_interests"] > 0
    (pool,) = during.pools
    assert (pool["prefix"], pool["members"]) == (prefix, {"h0": 100, "h1": 7})
    assert pool["parts"]["s0"]["cache_bytes"] > 0, "the block passed the switch"
    assert "Pools" in shown(during)
    assert after["jobs"] == [], "the last member has left"


def test_another_process_continues_from_a_shared_prefix(run_job: RunJob, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of one tenant and no other")
    secret.chmod(0o600)
    result = run_job("shared_prefix.py", [str(secret)], topology="star:2")
    assert not result.failure
    put, again = result.said("h0").splitlines()
    assert put == "put 96 tokens"
    assert again.startswith("this process has opened this tenant's pool already: close that")
    assert result.said("h1").splitlines() == [
        "found 96 tokens, the same: True",
        "layers: [(0, 96), (2, 96)]",
        "with another secret: 0",
        "places: ['local memory', 'network']",
    ]


@pytest.mark.parametrize(("method", "first"), [("fork", "parent"), ("spawn", "child")])
def test_a_second_process_is_refused_and_the_first_keeps_sharing(
    run_job: RunJob, tmp_path: Path, method: str, first: str
) -> None:
    pipes = [tmp_path / "was-put", tmp_path / "was-got"]
    for pipe in pipes:
        os.mkfifo(pipe)
    arguments = [method, first, *map(str, pipes)]
    result = run_job("one_process_per_host.py", arguments, topology="star:2")
    assert not result.failure
    refused, shared = result.said("h0").splitlines()
    assert refused.startswith("HostTaken: ")
    assert "h0" in refused
    assert "Use innet in process" in refused or "was forked from the worker" in refused
    assert shared == "homes: 1"
    assert result.said("h1") == "got it: True"
