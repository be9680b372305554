"""Workers save a checkpoint on SIGTERM, however their job ends; the others are killed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from innet.cluster.launch import JobFailed, RestartPolicy, Session
from innet.topology import load_topology

SAVE_S = 3
"""A checkpoint that takes longer than torchrun's polls, and far less than its grace period."""
SAVES = f"trap 'sleep {SAVE_S}; touch $FOLDER/$RANK; exit 1' TERM; echo works; "
WAITS = "while true; do sleep 0.05; done"


class _Job:
    """A job on two hosts, and the lines that were printed."""

    def __init__(self, script: str, folder: Path, grace_s: float | None = None) -> None:
        self.lines: list[str] = []
        self._works = 0
        self._are_working = asyncio.Event()
        self._command = ["sh", "-c", script.replace("$FOLDER", str(folder))]
        self._policy = RestartPolicy(grace_s=grace_s)

    def _take(self, _label: str, line: str) -> None:
        self.lines.append(line)
        self._works += line == "works"
        if self._works == 2:
            self._are_working.set()

    async def run(self, *, cancels: bool) -> None:
        async with Session(load_topology("star:2"), output=self._take) as session:
            job = asyncio.ensure_future(session.run_workers(self._command, restarts=self._policy))
            if cancels:
                await self._are_working.wait()
                job.cancel()
            await asyncio.gather(job, return_exceptions=True)
            assert job.cancelled() if cancels else isinstance(job.exception(), JobFailed)


async def test_a_cancelled_job_saves_its_checkpoints(tmp_path: Path) -> None:
    job = _Job(SAVES + WAITS, tmp_path)
    await job.run(cancels=True)
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]
    assert not any("killed" in line for line in job.lines)


async def test_a_job_of_which_a_worker_failed_saves_the_other_checkpoint(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("innet.cluster.launch.supervision._FAILURE_GRACE_S", 0.1)
    dies = "[ $RANK = 0 ] && while [ ! -e $FOLDER/works ]; do sleep 0.05; done && exit 3; "
    job = _Job(
        SAVES.replace("echo", "[ $RANK = 1 ] && touch $FOLDER/works; echo") + dies + WAITS, tmp_path
    )
    await job.run(cancels=False)
    assert (tmp_path / "1").exists()


async def test_the_launcher_says_which_workers_it_killed(tmp_path: Path) -> None:
    job = _Job("trap '' TERM; echo works; " + WAITS, tmp_path, grace_s=0.2)
    await job.run(cancels=True)
    killed = sorted(line for line in job.lines if "did not end within 0.2 s of SIGTERM" in line)
    assert [line.split()[0] for line in killed] == ["h0", "h1"]
