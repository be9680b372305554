"""Several jobs on the same switches: none reads, disturbs or outlives another."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from innet.cluster.launch import JobFailed, Session
from innet.errors import ControlError
from innet.settings import Settings
from innet.topology import load_topology
from tests.said import Said

WORKERS = Path(__file__).parent / "workers"


def command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, str(WORKERS / script), *map(str, arguments)]


async def switch_status(session: Session) -> dict[str, Any]:
    return (await session.status())["s0"]


def part_of(status: dict[str, Any], prefix: str) -> dict[str, Any]:
    part: dict[str, Any]
    (part,) = (job for job in status["jobs"] if job["prefix"] == prefix)
    return part


@pytest.mark.jobs
def test_four_concurrent_jobs_get_their_own_sums_and_leave_nothing():
    async def run() -> tuple[Said, dict[str, Any]]:
        said = Said()
        topology = load_topology("star:8").with_overrides(slots=32)
        async with Session(topology, output=said) as session:
            jobs = [
                session.run_workers(
                    command("neighbour.py", number),
                    algorithm="inc",
                    hosts=(f"h{2 * number}", f"h{2 * number + 1}"),
                    job_name=f"job{number}",
                    weight=1 + number,
                )
                for number in range(4)
            ]
            await asyncio.gather(*jobs)
            return said, await switch_status(session)

    said, status = asyncio.run(run())
    for host in range(8):
        assert said.by(f"h{host}") == ["right: 10"]
    assert status["jobs"] == status["rules"] == []
    assert status["reducer"]["slots_in_use"] == 0
    assert status["reducer"]["reductions_completed"] > 0
    counted = status["node"]
    assert counted["forbidden_interests"] == counted["forbidden_answers"] == 0
    assert counted["key_out_of_scope"] == counted["invalid_signature"] == 0


def test_the_crash_of_a_job_frees_its_resources_and_other_jobs_continue():
    async def run() -> tuple[Said, dict[str, Any]]:
        said = Said()
        async with Session(load_topology("star:4"), output=said) as session:
            dying = session.run_workers(
                command("neighbour.py", 1, "dies"), algorithm="inc", hosts=("h0", "h1")
            )
            living = session.run_workers(
                command("neighbour.py", 2), algorithm="inc", hosts=("h2", "h3")
            )
            death, life = await asyncio.gather(dying, living, return_exceptions=True)
            assert isinstance(death, JobFailed)
            assert life == ()
            again = session.run_workers(command("neighbour.py", 3), hosts=("h0", "h1"))
            assert await again == (), "its hosts are free"
            return said, await switch_status(session)

    said, status = asyncio.run(run())
    assert said.by("h2") == said.by("h3") == ["right: 10"]
    assert status["jobs"] == status["rules"] == []
    assert status["reducer"]["slots_in_use"] == 0


def test_a_host_has_one_job_at_a_time():
    async def run() -> None:
        said = Said()
        async with Session(load_topology("star:3"), output=said) as session:
            sleeping = asyncio.ensure_future(
                session.run_workers(
                    ["sh", "-c", "echo working; exec sleep 600"], hosts=("h0",), job_name="first"
                )
            )
            await said.until(("h0", "working"))
            with pytest.raises(ControlError, match=r"h0 has a job already \(first\)"):
                await session.run_workers(["true"])
            assert await session.run_workers(["true"], hosts=("h1", "h2")) == ()
            sleeping.cancel()
            await asyncio.wait([sleeping])

    asyncio.run(run())


def test_a_malicious_job_can_neither_read_nor_disturb_another(tmp_path):
    """It has its link's socket, and sends what it likes."""

    async def run() -> tuple[Said, dict[str, Any]]:
        said = Said()
        # The intruder writes to its link's socket.
        settings = Settings().with_assignments(
            ["transport.pit_capacity=1024", "transport.shared_memory=false"]
        )
        topology = load_topology("star:4").with_overrides(slots=32)
        async with Session(topology, settings=settings, output=said) as session:
            victim = asyncio.ensure_future(
                session.run_workers(
                    command("victim.py", tmp_path),
                    algorithm="inc",
                    hosts=("h0", "h1"),
                    job_name="victim",
                )
            )
            await said.until(("h0", "open"), ("h1", "open"))
            intruder = asyncio.ensure_future(
                session.run_workers(
                    command("intruder.py", tmp_path),
                    algorithm="inc",
                    hosts=("h2", "h3"),
                    job_name="intruder",
                )
            )
            await victim
            status = await switch_status(session)
            (tmp_path / "counted").touch()
            await intruder
            return said, status

    said, status = asyncio.run(run())
    for host in ("h0", "h1"):
        assert "wrong steps: 0" in said.by(host)
    for host in ("h2", "h3"):
        assert "read refused: True" in said.by(host)
    counted = status["node"]
    assert counted["forbidden_interests"] >= 4
    assert counted["forbidden_answers"] > 0
    attacker = part_of(status, "/intruder.2")
    assert attacker["pit_entries"] <= 1024 - attacker["pit_guaranteed"]
    assert attacker["pit_refused"] + attacker["refused_no_slot"] > 0
    (face,) = (link for link in status["links"] if link["peer"] == "h3")
    assert face["forbidden_in"] > 0
    for link in status["links"]:
        assert link["peer"] not in ("h0", "h1") or link["forbidden_in"] == 0
