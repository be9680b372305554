"""How machines join a network and leave it, and what is refused."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from innet.cluster.launch.cluster_network import ClusterOptions
from innet.cluster.launch.session import Session
from innet.errors import EmulationError
from tests.attacks.member_machine import TOPOLOGY, topology_of
from tests.cluster.several_machines.machines import kill, launched, machines, star

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
SUMS = str(Path(__file__).parent / "workers" / "sums.py")
UNTIL_FAILURE = str(Path(__file__).parent / "workers" / "until_failure.py")

# `innet run` sends its working directory; here it is one that no machine has.
RUN_IN_MISSING_DIRECTORY = """
import os, sys
from innet.cluster.session_client import JobRequest, WorkerOptions, run_job
from innet.cluster.emulation.runs import find_run
from pathlib import Path
import asyncio
options = WorkerOptions(directory=Path(sys.argv[1]))
end = asyncio.run(run_job(find_run("net"), JobRequest(argv=("true",), options=options), print))
print(end.error)
sys.exit(end.exit_code)
"""


def datagram_bytes(folder: Path, machine: str, node: str) -> list[int]:
    """The largest datagram of each link of a node, in its configuration."""
    (config,) = (folder / machine / "innet").glob(f"*/{node}.json")
    return [face["mtu_bytes"] for face in json.loads(config.read_text())["faces"]]


@pytest.mark.parametrize("mtu_bytes", [1500, 9000])
async def test_datagrams_are_as_large_as_the_path_allows(mtu_bytes: int) -> None:
    async with machines(3, mtu_bytes) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        assert datagram_bytes(lab.folder, "h1", "h1") == [mtu_bytes - 28]
        assert datagram_bytes(lab.folder, "h0", "s0") == [mtu_bytes - 28] * 2
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text


async def test_machines_join_over_ipv6() -> None:
    async with machines(3) as lab:
        await lab.use_ipv6(3)
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        assert datagram_bytes(lab.folder, "h1", "h1") == [1500 - 48]
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        await job.says("master fd00:2::1")


async def test_nodes_of_one_machine_share_memory_and_workers_their_host() -> None:
    topology = star(["h1", "h2"], h1="workers: 2", h2="machine: h1")
    async with machines(2) as lab:
        up, _ = await launched(lab, topology, ["h1"])
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text
        assert len({line.split()[-1] for line in job.lines if " sum " in line}) == 1
        assert len([line for line in job.lines if " sum " in line]) == 3
        status = lab.innet("h0", "status", "net")
        assert await status.ends() == 0
        assert "h1" in status.text
        assert "h1 (" not in up.text  # nothing died


async def test_a_process_of_another_launcher_attaches_on_its_machine() -> None:
    code = (
        "import innet, numpy as np\n"
        "node = innet.attach(job='x', rank={rank}, size=2, host='{host}')\n"
        "comm = innet.init()\n"
        "print(node, comm.allreduce(np.ones(10)).sum(), flush=True)\n"
        "comm.close()\n"
    )
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        ranks = [
            lab.start(host, sys.executable, "-c", code.format(rank=rank, host=host))
            for rank, host in enumerate(("h1", "h2"))
        ]
        for host, rank in zip(("h1", "h2"), ranks, strict=True):
            assert await rank.ends() == 0, rank.text
            assert f"{host} 20.0" in rank.text


async def test_ctrl_c_while_waiting_leaves_nothing() -> None:
    async with machines(2) as lab:
        up = lab.up(star(["h1"]))
        await up.says("0 of 1 machines joined; missing: h1; on each run: innet node join")
        kill(up, signal.SIGINT)
        assert await up.ends() != 0
        assert lab.leftovers() == []
        assert not (lab.folder / "token").exists()


async def test_an_agent_that_is_interrupted_takes_its_ranks_with_it() -> None:
    async with machines(3) as lab:
        _, agents = await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet("h0", "run", "--on", "net", "--", "python", UNTIL_FAILURE)
        await job.says("rank 1 is under way")
        kill(agents["h2"], signal.SIGINT)
        assert await job.ends() != 0
        assert "h2" in await job.says("rank 0 saw")
        await agents["h2"].ends()
        assert lab.leftovers("h2") == []


async def test_agents_clean_up_after_a_launcher_that_was_killed() -> None:
    async with machines(2) as lab:
        up, agents = await launched(lab, star(["h1"]), ["h1"])
        job = lab.innet("h0", "run", "--on", "net", "--", "python", UNTIL_FAILURE)
        await job.says("rank 0 is under way")
        kill(up)
        assert await job.ends() != 0
        await agents["h1"].says("left network net: ")
        assert await agents["h1"].ends() != 0
        assert lab.leftovers("h1") == []
        assert "error: " in agents["h1"].text
        assert await lab.innet("h0", "down", "--all").ends() == 0
        assert lab.leftovers() == []


async def test_a_switch_that_dies_is_restarted_on_its_machine() -> None:
    async with machines(3) as lab:
        up, agents = await launched(lab, star(["h1", "h2"], s0="machine: h1"), ["h1", "h2"])
        started = await agents["h1"].says("started s0 (pid ")
        pid = started.split("pid ")[1].rstrip(")")
        assert await lab.start("h1", "kill", "-9", pid).ends() == 0
        await up.says("switch s0 is back")
        await agents["h1"].says("started s0", 2)
        job = lab.innet("h0", "run", "--on", "net", "--", "python", SUMS)
        assert await job.ends() == 0, job.text


async def test_mistakes_are_refused_with_the_next_step() -> None:
    async with machines(2) as lab:
        token = str(lab.folder / "token")
        alone = lab.innet("h0", "up", "star:2", "--listen", "10.0.0.1", "--token-file", token)
        await alone.says("0 of 2")
        stranger = lab.join("h1", "h7")
        assert await stranger.ends() != 0
        assert "no machine 'h7'" in stranger.text
        kill(alone, signal.SIGINT)
        await alone.ends()
        topology = star(["h0"], h0="machine: launcher")
        one = lab.up(topology)
        assert await one.ends() != 0
        assert "no node of cluster is on another machine" in one.text
        cases = [
            (("up", "star:2", "--token-file", "x"), "give --listen"),
            (("up", "star:2", "--listen", "10.9.9.9:1"), "cannot listen on 10.9.9.9:1"),
            (("up", "star:2", "--listen", "::x"), "invalid address"),
            (("up", "star:2", "--listen", "10.0.0.1", "--wait", "1s"), "within 1 s: h0, h1"),
            (("up", "star:2", "--listen", "10.0.0.1", "--mode", "netns"), "--mode"),
            (("node", "join", "10.0.0.1:4711", "--token-file", "missing"), "missing"),
        ]
        for arguments, message in cases:
            refused = lab.innet("h0", *arguments)
            assert await refused.ends() != 0, refused.text
            assert message in refused.text.replace("\n", " "), refused.text


async def test_a_job_needs_its_directory_on_every_machine() -> None:
    async with machines(2) as lab:
        await launched(lab, star(["h1"]), ["h1"])
        job = lab.start(
            "h0",
            *(sys.executable, "-c", RUN_IN_MISSING_DIRECTORY, str(lab.folder / "gone")),
        )
        assert await job.ends() != 0
        assert "machine h1 has no directory" in job.text


async def test_a_name_that_is_too_long_for_several_machines_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory(prefix="innet-n-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        described = topology_of(TOPOLOGY, Path(folder))
        options = ClusterOptions(listen="127.0.0.1:0", token_file=Path(folder, "token"))
        with pytest.raises(EmulationError, match=r"needs a name of 1 to 32 .* another --name"):
            async with Session(described, mode="cluster", run_id="n" * 33, cluster=options):
                pass
