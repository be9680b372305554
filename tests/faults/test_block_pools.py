"""Prompts are served from a pool whose homes, switches and disks fail: no wrong byte, no hang."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from innet.cluster.emulation.runs import find_run
from innet.cluster.launch import RestartPolicy
from innet.cluster.run_status import read_run_status
from innet.kv.pool.block_database import PAGE_BYTES
from innet.kv.pool.disk_tier import FILE_NAME
from tests.conftest import JobResult
from tests.faults.conftest import FaultyRun, run_with_faults, worker

pytestmark = pytest.mark.faults

STAR = "star:3"
GOES_ON = RestartPolicy(elastic=True)


async def served_again(run: FaultyRun, *hosts: str) -> None:
    """Wait until each of these hosts has got some more prompts without computing anything."""
    for _ in range(10):
        await asyncio.gather(*(run.said_again(host, "whole") for host in hosts))


def assert_right(result: JobResult, *hosts: str) -> None:
    """Nobody has got a wrong byte, and these hosts have gone on to the end."""
    assert not any("wrong bytes" in line for _, line in result.lines)
    for host in hosts:
        assert "disk: " in result.said(host), result.said(host)[-2000:]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For disks, with a tenant's secret."""
    made = tmp_path / "blocks"
    made.mkdir()
    (made / "secret").touch(mode=0o600)
    (made / "secret").write_text("a secret that outlives a run")
    return made


async def test_blocks_of_a_killed_home_are_computed_again(tmp_path: Path) -> None:
    async def faults(run: FaultyRun) -> None:
        await served_again(run, "h0", "h1", "h2")
        run.kill("h2")
        await served_again(run, "h0", "h1")
        (tmp_path / "stop").touch()

    argv = worker("kv_replay.py", tmp_path / "stop")
    result = await run_with_faults(STAR, argv, faults, restarts=GOES_ON)
    assert result.failure == ""
    assert_right(result, "h0", "h1")


async def test_a_restarted_home_is_a_home_again(tmp_path: Path) -> None:
    async def faults(run: FaultyRun) -> None:
        await served_again(run, "h0", "h1", "h2")
        run.kill("h2")
        await served_again(run, "h0", "h1", "h2")
        (tmp_path / "stop").touch()

    argv = worker("kv_replay.py", tmp_path / "stop")
    policy = RestartPolicy(max_restarts=1)
    result = await run_with_faults(STAR, argv, faults, restarts=policy)
    assert result.failure == ""
    assert_right(result, "h0", "h1", "h2")


async def test_a_pool_survives_two_kills_of_the_only_switch(tmp_path: Path) -> None:
    async def faults(run: FaultyRun) -> None:
        for _ in range(2):
            await served_again(run, "h0", "h1", "h2")
            run.kill("s0")
            await run.said_again("innet", "switch s0 is back")
        await served_again(run, "h0", "h1", "h2")
        (tmp_path / "stop").touch()

    result = await run_with_faults(STAR, worker("kv_replay.py", tmp_path / "stop"), faults)
    assert result.failure == ""
    assert_right(result, "h0", "h1", "h2")


async def test_a_pool_survives_a_hung_home(tmp_path: Path) -> None:
    async def faults(run: FaultyRun) -> None:
        await served_again(run, "h0", "h1", "h2")
        os.kill(run.pid("h2"), signal.SIGSTOP)
        await served_again(run, "h0", "h1")
        os.kill(run.pid("h2"), signal.SIGCONT)
        await served_again(run, "h0", "h1", "h2")
        (tmp_path / "stop").touch()

    result = await run_with_faults(STAR, worker("kv_replay.py", tmp_path / "stop"), faults)
    assert result.failure == ""
    assert_right(result, "h0", "h1", "h2")


async def test_a_pool_survives_a_full_disk(tmp_path: Path, folder: Path) -> None:
    async def faults(run: FaultyRun) -> None:
        # h1 computes again what it has lost as a home; caches on the way have it for the others.
        await served_again(run, "h0", "h2")
        (tmp_path / "stop").touch()

    argv = worker("kv_replay.py", tmp_path / "stop", folder, "h1", 60_000)
    result = await run_with_faults(STAR, argv, faults)
    assert result.failure == ""
    assert_right(result, "h0", "h1", "h2")
    assert "disk: 0 failed" not in result.said("h1")
    assert "disk: 0 failed, 0 damaged" in result.said("h0")


async def test_damaged_disks_cost_only_their_blocks(tmp_path: Path, folder: Path) -> None:
    stop = tmp_path / "stop"

    async def faults(run: FaultyRun) -> None:
        await served_again(run, "h0", "h1", "h2")
        stop.touch()

    argv = worker("kv_replay.py", stop, folder)
    first = await run_with_faults(STAR, argv, faults)
    assert_right(first, "h0", "h1", "h2")
    stop.unlink()
    damage_all(folder)
    second = await run_with_faults(STAR, argv, faults)
    assert second.failure == ""
    assert_right(second, "h0", "h1", "h2")
    assert any("disk: " in line and "0 damaged" not in line for _, line in second.lines)


def damage_all(folder: Path) -> None:
    """Change a byte in the second half of every page but the first: of blocks, most of them."""
    for path in folder.rglob(FILE_NAME):
        content = bytearray(path.read_bytes())
        for page in range(PAGE_BYTES, len(content), PAGE_BYTES):
            content[page + PAGE_BYTES * 3 // 4] ^= 1
        path.write_bytes(content)


async def test_a_restarted_switch_and_controller_know_the_pools(tmp_path):
    async def faults(run: FaultyRun) -> None:
        await run.said("h1", "here among h0, h1")
        run.kill("s0")
        await run.said("innet", "switch s0 is back")
        await run.said_again("h1", "here among h0, h1")
        run.kill("controller")
        await run.said("innet", "the controller (pid")
        pools = await asyncio.to_thread(pools_of, run.session.network.run_id)
        assert [pool["members"] for pool in pools] == [{"h0": 1, "h1": 2}]
        await run.said_again("h1", "here among h0, h1")
        (tmp_path / "stop").touch()

    result = await run_with_faults("star:2", worker("pool.py", tmp_path / "stop"), faults)
    assert result.failure == ""


def pools_of(run_id: str):
    """The pools of the run, once its controller answers."""
    while not (status := read_run_status(find_run(run_id))).pools:
        pass
    return status.pools
