"""Jobs that are admitted while whoever asked for them goes away."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import cast

import pytest

from innet.cluster.control.jobs import Job
from innet.cluster.control.remote import RemoteController
from innet.cluster.launch.jobs import JobAdmission
from innet.security import KeyDealer
from innet.topology import load_topology

JOB = Job("j1", "/j1", ("h0", "h1"), 1)


class SlowController:
    """Answers one method when the test says so."""

    def __init__(self, slow: str) -> None:
        self.began, self.may_answer = threading.Event(), threading.Event()
        self.requests: list[str] = []
        self._slow = slow

    def admit_job(self, *_: object) -> Job:
        self._take("admit_job")
        return JOB

    def open_job(self, *_: object) -> None:
        self._take("open_job")

    def close_job(self, *_: object) -> None:
        self._take("close_job")

    def _take(self, method: str) -> None:
        if method == self._slow:
            self.began.set()
            assert self.may_answer.wait(20)
        self.requests.append(method)


@pytest.mark.parametrize("slow", ["admit_job", "open_job"])
async def test_a_job_cancelled_during_admission_keeps_no_host(tmp_path: Path, slow: str) -> None:
    controller, topology = SlowController(slow), load_topology("star:2")
    dealer = KeyDealer(topology.switches, "ed25519")
    admission = JobAdmission(
        topology,
        cast(RemoteController, controller),
        dealer,
        keys_path=lambda host: tmp_path / f"{host}.keys",
        certificates_path=lambda job: tmp_path / f"{job.name}.certificates",
    )

    async def use() -> None:
        async with admission.admit(JOB.hosts):
            pytest.fail("it was cancelled before")

    using = asyncio.ensure_future(use())
    await asyncio.to_thread(controller.began.wait, 20)
    using.cancel()
    await asyncio.sleep(0)
    controller.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await using

    assert controller.requests == ["admit_job", "open_job", "close_job"]
    assert not os.listdir(tmp_path)
