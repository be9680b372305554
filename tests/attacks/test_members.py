"""A machine of a cluster that lies: it runs, ends, reads and redirects nothing of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from innet.cluster.session_client import SESSION_SOCKET_NAME, JobRequest, WorkerOptions
from tests.attacks.member_machine import request, two_machines


@pytest.mark.parametrize("end", ["reset", "end"])
async def test_a_machine_starts_no_job_however_its_stream_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    marker = tmp_path / "ran"
    job = JobRequest(argv=("touch", str(marker)), options=WorkerOptions(hosts=("h0",)))
    line = request("run_job", **json.loads(job.model_dump_json()))
    async with two_machines(monkeypatch) as (session, member):
        for after in (b"", b"x", b"\n", line):
            stream = member.stream(SESSION_SOCKET_NAME)
            assert not (await stream.request("nothing"))["ok"]  # the launcher serves the stream
            stream.send(line + after)
            getattr(stream, end)()
        answer = await member.stream(SESSION_SOCKET_NAME).request(
            "run_job", **json.loads(job.model_dump_json())
        )
        assert "machine m1 may not start jobs on net" in answer["error"]
        await session.run_workers(["true"], hosts=["h0"])
    assert not marker.exists()
