"""Other launchers start agents and ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from innet.cluster.requests import RequestClient
from innet.cluster.session_client import SESSION_SOCKET_NAME, JobRequest, WorkerOptions
from innet.errors import ControlError
from tests.cluster.several_machines.machines import INNET, launched, machines, star

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"


async def test_torchrun_on_each_machine_attaches_ranks_to_its_hosts() -> None:
    pytest.importorskip("torch")
    topology = star(["h1", "h2"], h1="workers: 2", h2="workers: 2")
    async with machines(3) as lab:
        await launched(lab, topology, ["h1", "h2"])
        torchrun = (
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"),
            *("--nproc-per-node", "2", "--master-addr", "10.0.0.3", "--master-port", "29501"),
        )
        jobs = [
            lab.start(
                host,
                *("env", "INNET_NETWORK=net", *torchrun, "--node-rank", str(rank)),
                *(str(WORKERS / "ddp.py"),),
            )
            for rank, host in enumerate(("h2", "h1"))
        ]
        for job in jobs:
            assert await job.ends() == 0, job.text
        found = {line for job in jobs for line in job.lines if line.startswith("parameters")}
        assert len(found) == 1


async def test_slurm_starts_the_agents_of_all_machines() -> None:
    """`srun` runs one command on every node, with variables that tell which one it is."""
    async with machines(3) as lab:
        up = lab.up(star(["node1", "node2"]))
        await up.says("0 of 2")
        join = (*INNET, "node", "join", lab.address, "--token-file", str(lab.folder / "token"))
        agents = [
            lab.start(
                host,
                *("env", f"SLURMD_NODENAME=node{host[1]}", "sh", "-c"),
                " ".join((*join, "--name", "$SLURMD_NODENAME")),
            )
            for host in ("h1", "h2")
        ]
        await up.says("is up")
        job = lab.innet("h0", "run", "--on", "net", "--", "python", str(WORKERS / "sums.py"))
        assert await job.ends() == 0, job.text
        assert await lab.innet("h0", "down", "net").ends() == 0
        assert [await agent.ends() for agent in agents] == [0, 0]


async def test_strangers_find_no_open_port_but_the_one_to_join() -> None:
    """Of the kernel's tables: who listens, and which UDP sockets take packets from anybody."""
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        open_ports = {}
        for machine in ("h0", "h1", "h2"):
            shown = lab.start(machine, sys.executable, str(WORKERS / "open_ports.py"))
            assert await shown.ends() == 0, shown.text
            open_ports[machine] = shown.text
        assert open_ports == {"h0": "tcp 10.0.0.1:4711", "h1": "", "h2": ""}
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text


async def test_a_machine_may_not_start_jobs() -> None:
    async with machines(2) as lab:
        await launched(lab, star(["h0", "h1"], h0="machine: launcher"), ["h1"])
        job = JobRequest(argv=("true",), options=WorkerOptions()).model_dump(mode="json")
        socket = lab.folder / "h1" / "innet" / "net.h1" / SESSION_SOCKET_NAME
        client = RequestClient(socket, who="the launcher")
        with pytest.raises(ControlError, match="machine h1 may not start jobs on net"):
            await client.request("run_job", job)
        client.close()
