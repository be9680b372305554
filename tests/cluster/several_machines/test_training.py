"""A training on several machines is that of one machine, and commands see all of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.topology import parse_yaml
from tests.cluster.several_machines.machines import Program, launched, machines, star

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"
DDP = str(WORKERS / "ddp.py")
SCRAPE = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


async def test_ddp_ends_with_the_parameters_of_one_process(tmp_path_factory, monkeypatch) -> None:
    """By `innet run --on`, to the bits of one machine, and by torchrun on each machine."""
    torch = pytest.importorskip("torch")
    topology = star(["h1", "h2"], h1="workers: 2", h2="workers: 2")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("local")))
    local: list[str] = []
    async with Session(parse_yaml(topology), output=lambda _, line: local.append(line)) as session:
        await session.run_workers([sys.executable, DDP], algorithm="inc")
    async with machines(3) as lab:
        alone = lab.start("h0", sys.executable, DDP, str(lab.folder / "alone"))
        assert await alone.ends() == 0, alone.text
        await launched(lab, topology, ["h1", "h2"])
        command = ("--algorithm", "inc", "--", "python", DDP, str(lab.folder / "run"))
        job = lab.innet("h0", "run", "--on", "net", *command)
        assert await job.ends() == 0, job.text
        assert digests([job]) == [line.split()[-1] for line in local if "parameters" in line]
        ranks = [
            lab.start(machine, *torchrun(number), DDP, str(lab.folder / "torchrun"))
            for number, machine in enumerate(("h1", "h2"))
        ]
        for rank in ranks:
            assert await rank.ends() == 0, rank.text
        for found in (digests([job]), digests(ranks)):
            assert len(found) == 4
            assert len(set(found)) == 1
        expected = torch.load(lab.folder / "alone")
        for launcher in ("run", "torchrun"):
            torch.testing.assert_close(torch.load(lab.folder / launcher), expected)


def digests(programs: Sequence[Program]) -> list[str]:
    """Of the parameters of each rank."""
    lines = [line for program in programs for line in program.lines]
    return [line.split()[-1] for line in lines if "parameters" in line]


def torchrun(number: int) -> list[str]:
    """The command that starts the two ranks of machine ``number``, which attach to the network."""
    where = ["--master-addr", "10.0.0.2", "--master-port", "29511"]
    ranks = ["--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "2"]
    module = [sys.executable, "-m", "torch.distributed.run"]
    return ["env", "INNET_NETWORK=net", *module, *where, *ranks]


async def test_commands_on_the_first_machine_see_the_nodes_of_all() -> None:
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"], s0="machine: h2"), ["h1", "h2"])
        watch = lab.innet("h0", "watch", "net", "--events")
        metrics = lab.innet("h0", "metrics", "net", "--port", "0")
        url = (await metrics.says("http://")).split()[-1]
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        status = lab.innet("h0", "status", "net", "--json")
        assert await status.ends() == 0, status.text
        assert set(json.loads(status.text)["nodes"]) == {"h1", "h2", "s0"}
        doctor = lab.innet("h0", "doctor", "net")
        assert await doctor.ends() == 0, doctor.text
        assert "healthy" in doctor.text
        scraped = lab.start("h0", sys.executable, "-c", SCRAPE, url)
        assert await scraped.ends() == 0, scraped.text
        assert all(f'node="{node}"' in scraped.text for node in ("h1", "h2", "s0"))
        elsewhere = lab.innet("h2", "status", "net.h2")
        assert await elsewhere.ends() == 0, elsewhere.text
        assert "s0" in elsewhere.text
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text
        assert await lab.innet("h0", "down", "net").ends() == 0
        assert await watch.ends() == 0, watch.text
        assert " h1 " in watch.text, watch.text
