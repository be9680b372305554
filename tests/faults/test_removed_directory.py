"""Somebody removes the run's directory or a part of it: the job ends as it would have."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.errors import EmulationError
from innet.node.node_config import Mode
from innet.topology import load_topology
from tests.faults.conftest import FaultyRun, run_with_faults, worker

WARNING = "Running jobs go on; nothing new can start on this network or reach it"


def _remove_all(run_dir: Path) -> None:
    shutil.rmtree(run_dir.parent)


def _remove_sockets(run_dir: Path) -> None:
    for path in run_dir.iterdir():
        if path.is_socket():
            path.unlink()


def _remove_files(run_dir: Path) -> None:
    for path in run_dir.iterdir():
        if path.is_file():
            path.unlink()


def _move(run_dir: Path) -> None:
    run_dir.rename(run_dir.with_name("elsewhere"))


def _replace(run_dir: Path) -> None:
    shutil.rmtree(run_dir)
    run_dir.mkdir()
    (run_dir / "of somebody").touch()


REMOVALS = (_remove_all, _remove_sockets, _remove_files, _move, _replace)


async def _train(tmp_path: Path, remove: Callable[[Path], None], backend: str, mode: Mode) -> None:
    done = tmp_path / "done"

    async def fault(run: FaultyRun) -> None:
        for node in ("h0", "h1"):
            await run.said(node, "trains in")
        remove(run.session.network.run_dir)
        await run.said("innet", WARNING)
        await asyncio.to_thread(done.touch)
        await run.said("h0", "trained")

    argv = worker("trains_on.py", done, backend)
    result = await run_with_faults("star:2", argv, fault, mode=mode)
    assert result.failure == ""
    assert [result.said(node).splitlines()[-1] for node in ("h0", "h1")] == ["trained", "trained"]
    assert sum(WARNING in line for _, line in result.lines) == 1


@pytest.fixture(autouse=True)
def _registry(short_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_directory))


async def test_a_job_whose_directory_is_removed_succeeds(tmp_path):
    await _train(tmp_path, _remove_all, "numpy", "local")


@pytest.mark.faults
@pytest.mark.netns
@pytest.mark.parametrize("mode", ["local", "netns"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("remove", REMOVALS)
async def test_a_job_of_which_files_are_removed_succeeds(tmp_path, remove, backend, mode):
    await _train(tmp_path, remove, backend, mode)


async def test_what_took_the_place_of_the_directory_stays():
    async with Session(load_topology("star:2")) as session:
        run_dir = session.network.run_dir
        await asyncio.to_thread(_replace, run_dir)
        await session.network.until_lost()
    assert [path.name for path in run_dir.iterdir()] == ["of somebody"]


async def test_a_network_without_a_directory_starts_nothing_and_ends():
    async with Session(load_topology("star:2")) as session:
        await asyncio.to_thread(_remove_all, session.network.run_dir)
        with pytest.raises(EmulationError, match=r"was removed, moved or replaced.*no job"):
            await session.raise_when_lost()
        with pytest.raises(EmulationError):
            await session.run_workers(["true"])
