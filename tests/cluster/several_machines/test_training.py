"""A training on several machines is that of one machine, and commands see all of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from innet.cluster.launch import Session
from innet.topology import parse_yaml
from tests.cluster.several_machines.machines import launched, machines, star

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"
SCRAPE = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


async def test_ddp_ends_with_the_same_parameters_as_on_one_machine(
    tmp_path_factory, monkeypatch
) -> None:
    pytest.importorskip("torch")
    topology = star(["h1", "h2", "h3"])
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("local")))
    local: list[str] = []
    async with Session(parse_yaml(topology), output=lambda _, line: local.append(line)) as session:
        await session.run_workers([sys.executable, str(WORKERS / "ddp.py")], algorithm="inc")
    async with machines(4) as lab:
        await launched(lab, topology, ["h1", "h2", "h3"])
        command = ("--algorithm", "inc", "--", "python", str(WORKERS / "ddp.py"))
        job = lab.innet("h0", "run", "--on", "net", *command)
        assert await job.ends() == 0, job.text
        found = [line.split("] ")[1] for line in job.lines if "parameters" in line]
        assert found == [line for line in local if line.startswith("parameters")]
        assert len(set(found)) == 1


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
