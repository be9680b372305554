"""Pools on several machines: of a job, and a standing one to which processes there attach."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.cluster.several_machines.machines import (
    QUICK,
    Machines,
    Program,
    kill,
    launched,
    machines,
    star,
)

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
ENGINE = str(Path(__file__).parents[2] / "kv" / "workers" / "attached_engine.py")
POOL = """
pool:
  engines: 1
  tenants:
    acme: {secret: acme.secret, memory: 16MiB}
"""

PUTS_FOR_EVER = """
import json, sys
import numpy as np
from innet.kv.names import BlockFamily, BlockKey
from innet.kv.pool_member import PoolMember

with PoolMember.open(**json.loads(sys.argv[1])) as member:
    family = BlockFamily(member.tenant, "00ff", "raw", 0, 1)
    number = homes = 0
    while True:
        number, before = number + 1, homes
        key = BlockKey(family, number.to_bytes(32, "big"))
        homes = member.run(member.blocks.put(key, np.full(5000, number % 256, np.uint8)))
        if homes != before:
            print("homes:", homes, flush=True)
"""

HAS_JOINED = """
from innet.cluster.emulation.runs import find_run
from innet.cluster.run_status import read_run_status
while "h2.0" not in read_run_status(find_run("prod")).pools[0]["members"]:
    pass
"""


def write_pool(lab: Machines, network: str) -> str:
    """Write the secret of the pool's tenant, and its file with a network; returns its path."""
    secret = lab.folder / "acme.secret"
    secret.touch(mode=0o600)
    secret.write_text("at least sixteen bytes")
    file = lab.folder / "pool.yaml"
    file.write_text(network + POOL)
    return str(file)


def options_of_engine(lab: Machines, machine: str, network: str | None = None) -> dict[str, str]:
    """Options of a pool for an engine on a machine."""
    token_file = str(lab.folder / machine / "token")
    joined = {"address": lab.address, "token_file": token_file}
    return {
        **(joined if network is None else {"address": network}),
        "tenant": "acme",
        "secret": str(lab.folder / "acme.secret"),
    }


def engine(lab: Machines, machine: str, *commands: str, network: str | None = None) -> Program:
    """A process on a machine that attaches, and gets its commands by standard input.

    Without the network's name, it attaches by the address and the token with which it joined.
    """
    options = options_of_engine(lab, machine, network)
    lines = "\\n".join(commands)
    shell = f'printf "{lines}\\n" | exec "$@"'
    return lab.start(machine, "sh", "-c", shell, "sh", sys.executable, ENGINE, json.dumps(options))


async def test_engines_of_two_machines_share_blocks() -> None:
    async with machines(3) as lab:
        file = write_pool(lab, star(["h1", "h2"]))
        where = ("--listen", lab.address, "--token-file", str(lab.folder / "token"))
        serving = lab.innet("h0", "kv", "serve", file, "--name", "prod", *where, *QUICK)
        await serving.says("0 of")
        agents = [lab.join(machine, machine) for machine in ("h1", "h2")]
        await serving.says("the blocks of acme on 2 hosts")
        numbers = range(6)
        writer = engine(lab, "h1", *(f"put {number}" for number in numbers))
        assert await writer.ends() == 0, writer.text
        assert writer.lines == ["at h1.1", *("put 1" for _ in numbers)]
        reader = engine(lab, "h2", *(f"get {number}" for number in numbers))
        assert await reader.ends() == 0, reader.text
        assert reader.lines == ["at h2.1", *("found" for _ in numbers)]
        remote = lab.innet("h0", "kv", "leave", "h2")
        assert await remote.ends() == 1
        assert "the member of h2 does not run on this machine" in remote.text
        left = lab.innet("h2", "kv", "leave", "h2")
        assert await left.ends() == 0, left.text
        kill(agents[1], signal.SIGTERM)
        await agents[1].ends()
        alone = engine(lab, "h1", *(f"get {number}" for number in numbers))
        assert await alone.ends() == 0, alone.text
        assert alone.lines == ["at h1.1", *("found" for _ in numbers)]
        agents[1] = lab.join("h2", "h2")
        await serving.says("machine h2 is back")
        back = lab.start("h0", sys.executable, "-c", HAS_JOINED)
        assert await back.ends() == 0, back.text
        down = lab.innet("h0", "down", "prod")
        assert await down.ends() == 0, down.text
        for agent in agents:
            assert await agent.ends() == 0, agent.text
        refused = engine(lab, "h1", "get 0")
        assert await refused.ends() == 1
        assert "this machine has no node of network prod" in refused.text
        assert "innet node join 10.0.0.1:4711" in refused.text


async def test_machines_and_engines_join_a_launcher_that_is_started_again() -> None:
    async with machines(3) as lab:
        file = write_pool(lab, star(["h1", "h2"]))
        where = ("--listen", lab.address, "--token-file", str(lab.folder / "token"))
        serve = ("h0", "kv", "serve", file, "--name", "prod", *where, *QUICK)
        first = lab.innet(*serve)
        await first.says("0 of")
        agents = [lab.join(machine, machine) for machine in ("h1", "h2")]
        await first.says("the blocks of acme on 2 hosts")
        options = json.dumps(options_of_engine(lab, "h1"))
        putter = lab.start("h1", sys.executable, "-c", PUTS_FOR_EVER, options)
        await putter.says("homes: 1")
        kill(first)
        await first.ends()
        await putter.says("homes: 0")
        second = lab.innet(*serve)
        await second.says("the blocks of acme on 2 hosts")
        await putter.says("homes: 1", 2)
        kill(second, signal.SIGTERM)  # as a service manager ends it
        await second.ends()
        third = lab.innet(*serve)
        await third.says("the blocks of acme on 2 hosts")
        for agent in agents:
            await agent.says("joined network prod", 3)
        await putter.says("homes: 1", 3)
        kill(putter, signal.SIGTERM)
        await putter.ends()
        assert await lab.innet("h0", "down", "prod").ends() == 0
        assert [await agent.ends() for agent in agents] == [0, 0]
        assert not list(lab.folder.glob("token*")), "the next network has other keys"
        assert lab.leftovers() == []


BLOCKS = str(Path(__file__).parent / "workers" / "blocks.py")


async def test_a_pool_loses_only_the_blocks_of_a_lost_machine() -> None:
    async with machines(4) as lab:
        names = ["h1", "h2", "h3"]
        up, agents = await launched(lab, star(names, s0="cache: 0"), names)
        job = lab.innet(
            *("h0", "run", "--on", "net", "--on-worker-death", "shrink"),
            *("--", "python", BLOCKS, str(lab.folder)),
        )
        await job.says("got 40 of 40")
        kill(agents["h3"])
        await up.says("what ran there counts as ended")
        await job.says("got ", len(job.lines) + 2)
        (count,) = {line.split()[2] for line in job.lines[-1:]}
        assert 0 < int(count) < 40, job.text
        (lab.folder / "again").touch()
        full = sum("got 40 of 40" in line for line in job.lines)
        await job.says("got 40 of 40", full + 1)
        (lab.folder / "stop").touch()
        assert await job.ends() == 0, job.text
