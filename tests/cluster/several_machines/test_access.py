"""What strangers find open, and what a machine that has joined may not do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from innet.cluster.machines.token_file import TokenFile
from innet.cluster.requests import RequestClient
from innet.cluster.session_client import SESSION_SOCKET_NAME, JobRequest, WorkerOptions
from innet.errors import ControlError
from tests.cluster.several_machines.machines import launched, machines, star

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"
FLOOD = Path(__file__).parents[2] / "attacks" / "workers" / "flood.py"
CURVE_GREETING = (b"\xff" + bytes(7) + b"\x01\x7f\x03\x01CURVE").ljust(64, b"\0")


async def test_strangers_find_only_the_join_port_open() -> None:
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


async def test_a_stranger_receives_no_data() -> None:
    """Of all TCP and UDP ports of all machines: the port to join says that it speaks CURVE."""
    async with machines(4) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        key = TokenFile.load(lab.folder / "token").public_key
        addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
        stranger = lab.start("h3", sys.executable, str(WORKERS / "stranger.py"), key, *addresses)
        assert await stranger.ends() == 0, stranger.text
        answers = [line.split()[2:] for line in stranger.lines if line.startswith("answer")]
        others = [line for line in stranger.lines if not line.startswith("answer")]
        assert others == ["open 10.0.0.1:4711"]
        assert answers[-1] == ["curve", CURVE_GREETING.hex()]
        assert len(answers) == 7
        for _, *answer in answers:
            assert CURVE_GREETING.startswith(bytes.fromhex("".join(answer))), answer
        await job.says("sums", len(job.lines) + 2)
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text


async def test_a_machine_cannot_start_jobs() -> None:
    async with machines(2) as lab:
        await launched(lab, star(["h0", "h1"], h0="machine: launcher"), ["h1"])
        job = JobRequest(argv=("true",), options=WorkerOptions()).model_dump(mode="json")
        socket = lab.folder / "h1" / "innet" / "net.h1" / SESSION_SOCKET_NAME
        client = RequestClient(socket, who="the launcher")
        with pytest.raises(ControlError, match="machine h1 may not start jobs on net"):
            await client.request("run_job", job)
        client.close()


async def test_a_flood_of_connections_ends_neither_a_job_nor_a_session() -> None:
    async with machines(4) as lab:
        up, _ = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        host, _, port = lab.address.rpartition(":")
        flood = lab.start("h3", sys.executable, str(FLOOD), host, port, "500", "10")
        await flood.says("flooded")
        assert await flood.ends() == 0, flood.text
        await job.says("sums", len(job.lines) + 2)
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text
        assert "lost" not in up.text
        assert "Let a firewall admit the addresses of machines alone" in up.text
