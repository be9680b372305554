"""One network on four machines gives the results of one machine, and leaves nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.topology import parse_yaml
from tests.cluster.several_machines.machines import Program, machines, star

pytestmark = pytest.mark.netns
SUMS = str(Path(__file__).parent / "workers" / "sums.py")


def digests(program: Program) -> list[str]:
    """The digests that the ranks have printed."""
    return [line.split()[-1] for line in program.lines if " sum " in line]


async def local_digest(topology: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The digest of the same job on one machine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    lines: list[str] = []
    async with Session(parse_yaml(topology), output=lambda _, line: lines.append(line)) as session:
        await session.run_workers([sys.executable, SUMS], algorithm="inc")
    return next(line.split()[-1] for line in lines if line.startswith("sum "))


async def test_four_machines_give_the_same_bits_as_one(tmp_path_factory, monkeypatch) -> None:
    topology = star(["h0", "h1", "h2", "h3"], h0="machine: launcher")
    folder = tmp_path_factory.mktemp("local")
    expected = await local_digest(topology, folder, monkeypatch)
    async with machines(4) as lab:
        up = lab.up(topology)
        await up.says("0 of 3 machines joined; missing: h1, h2, h3")
        agents = [lab.join(machine, machine) for machine in ("h1", "h2", "h3")]
        await up.says("is up")
        job = lab.innet("h0", "run", "--on", "net", "--algorithm", "inc", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        assert digests(job) == [expected] * 4
        assert list(lab.folder.glob("h[123]/innet/*/*.keys")) == []
        assert await lab.innet("h0", "down", "net").ends() == 0
        assert [await agent.ends() for agent in agents] == [0, 0, 0], agents[0].text
        await up.ends()
        assert lab.leftovers() == []


@pytest.mark.cluster
async def test_each_rail_uses_the_addresses_of_its_subnet() -> None:
    rails = ["10.1.0.0/16", "10.2.0.0/16"]
    topology = f"""
name: rails
topology: {{generate: {{kind: rails, hosts: 2, rails: 2, subnets: {rails}}}}}
"""
    async with machines(3) as lab:
        for number, machine in enumerate(("h0", "h1", "h2")):
            for rail in (1, 2):
                own = f"10.{rail}.0.{number + 1}/32"
                assert (
                    await lab.start(machine, "ip", "address", "add", own, "dev", "lo").ends() == 0
                )
                via = f"10.128.0.{2 * number}"
                assert await lab.start("s0", "ip", "route", "add", own, "via", via).ends() == 0
        up = lab.up(topology)
        await up.says("0 of 2 machines joined; missing: h0, h1")
        agents = [lab.join(at, name) for at, name in (("h1", "h0"), ("h2", "h1"))]
        await up.says("is up")
        job = lab.innet("h0", "run", "--on", "net", "--algorithm", "inc", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        assert len(set(digests(job))) == 1
        sockets = lab.start("h2", "ss", "-Hun")
        assert await sockets.ends() == 0
        for rail in (1, 2):
            (link,) = (line for line in sockets.lines if f"10.{rail}.0.3:" in line)
            assert f"10.{rail}.0.1:" in link
        assert await lab.innet("h0", "down", "net").ends() == 0
        assert [await agent.ends() for agent in agents] == [0, 0], agents[0].text
        await up.ends()
