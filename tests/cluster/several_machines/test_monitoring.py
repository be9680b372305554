"""What displays show of machines that fail, on a network of several machines."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from innet.cluster.machines.messages import STARTER_VARIABLE
from tests.cluster.several_machines.cuts import Cuts
from tests.cluster.several_machines.machines import (
    INNET,
    QUICK,
    Machines,
    kill,
    launched,
    machines,
    star,
    two_spines,
)

pytestmark = [pytest.mark.netns, pytest.mark.cluster]
WORKERS = Path(__file__).parent / "workers"


async def printed(lab: Machines, machine: str, *arguments: str) -> tuple[int, str]:
    """The exit code of a command of innet, and what it printed."""
    program = lab.innet(machine, *arguments)
    return await program.ends(), program.text


async def diagnosed(lab: Machines, machine: str = "h0") -> tuple[int, dict[str, Any]]:
    """The exit code of the doctor, and its findings by check."""
    code, text = await printed(lab, machine, "doctor", "net", "--json")
    document = json.loads(text[text.index("{") :])
    return code, {found["check"]: found for found in document["findings"]}


async def test_all_displays_name_a_lost_machine_until_it_returns() -> None:
    async with machines(4) as lab:
        up, agents = await launched(lab, two_hosts_and_a_spine(), ["h1", "h2", "h3"])
        code, found = await diagnosed(lab)
        assert (code, found) == (0, {})
        kill(agents["h3"])
        await up.says("machine h3 does not answer for 2 s")

        code, found = await diagnosed(lab)
        assert code == 1
        assert "Machine h3 (10.0.0.4) has been lost for" in found["lost_machine"]["problem"]
        assert "does not answer for 2 s. s2 ran there." in found["lost_machine"]["problem"]
        assert found["lost_machine"]["remedy"].startswith("Let the machine join again")
        assert {f["because"] for c, f in found.items() if c != "lost_machine"} <= {"h3"}
        _, status = await printed(lab, "h0", "status", "net")
        assert "machine h3 does not answer for 2 s; s2 ran there." in status
        _, runs = await printed(lab, "h0", "status")
        assert "up, 1 machine lost" in runs
        _, metrics = await printed(lab, "h0", "metrics", "net", "--once")
        assert 'innet_machine_up{address="10.0.0.4",machine="h3"} 0.0' in metrics
        assert 'innet_machine_up{address="10.0.0.2",machine="h1"} 1.0' in metrics
        assert 'innet_node_state{machine="h3",node="s2",state="lost"} 1.0' in metrics
        assert 'innet_node_up{node="s2"} 0.0' in metrics

        agents["h3"] = lab.join("h3", "h3")
        await up.says("switch s2 is back")
        code, found = await diagnosed(lab)
        assert (code, list(found)) == (0, ["restarted_node"])


def two_hosts_and_a_spine() -> str:
    """A topology file: as :func:`two_spines`, with one spine and both leaves on the launcher."""
    return two_spines().replace("{kind: switch, machine: h4}", "{kind: switch}")


async def test_a_network_that_waits_for_machines_names_them() -> None:
    async with machines(3) as lab:
        up = lab.up(star(["h1", "h2"]))
        await up.says("0 of 2 machines joined")
        lab.join("h1", "h1")
        await up.says("1 of 2 machines joined")
        _, status = await printed(lab, "h0", "status", "net")
        assert "starting" in status
        assert re.search(r"^h2 +- +starting", status, re.MULTILINE), status
        assert re.search(r"^h1 +10.0.0.2 +up", status, re.MULTILINE), status
        _, runs = await printed(lab, "h0", "status")
        assert "starting, 1 machine missing" in runs
        code, text = await printed(lab, "h0", "doctor", "net")
        assert code == 1
        assert "it waits for h2 of its 3 machines" in " ".join(text.split())
        code, text = await printed(lab, "h0", "watch", "net")
        assert "without telemetry" not in text
        assert "it waits for h2" in " ".join(text.split())


async def test_a_machine_knows_its_own_nodes_only() -> None:
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        code, found = await diagnosed(lab, "h1")
        assert (code, found) == (0, {})
        _, status = await printed(lab, "h1", "status", "net")
        assert "the part of machine h1" in status
        watch = lab.innet("h1", "watch", "net")
        await watch.says("net: cluster, cluster, 3 nodes, up")
        await watch.says("machine h2 ")
        kill(watch)


async def test_a_cut_path_is_named_before_what_follows_from_it() -> None:
    async with machines(3) as lab:
        await launched(lab, star(["h1", "h2"]), ["h1", "h2"])
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        await Cuts(lab).cut_links("h0", "h2")
        while "cut_link" not in (found := (await diagnosed(lab))[1]):
            pass
        assert "machine h2 (10.0.0.3)" in found["cut_link"]["remedy"]
        assert "Let UDP pass between" in found["cut_link"]["remedy"]
        assert {f["because"] for c, f in found.items() if c != "cut_link"} <= {"h2--s0"}


async def test_a_launch_that_udp_cannot_pass_says_so_once() -> None:
    async with machines(3) as lab:
        await Cuts(lab).cut_links("h0", "h2")
        up = lab.up(star(["h1", "h2"]))
        await up.says("0 of 2 machines joined")
        agents = [lab.join(machine, machine) for machine in ("h1", "h2")]
        assert await up.ends() != 0
        assert up.text.count("no UDP datagram passes between machine") == 1
        assert "machine launcher (10.0.0.1, port" in up.text
        assert "launcher has ended" not in up.text
        assert "missing: h" not in up.text.partition("all machines joined")[2]
        for agent in agents:
            kill(agent)


async def test_an_agent_says_what_is_in_its_way() -> None:
    async with machines(3) as lab:
        up = lab.up(star(["h1", "h2"]))
        await up.says("0 of 2 machines joined")
        await Cuts(lab).part("h2")
        agent = lab.join("h2", "h2")
        said = await agent.says("not joined yet")
        assert "nobody listens" not in said
        assert "10.0.0.1:4711" in said
        assert "ip route get 10.0.0.1" in said
        kill(agent)


async def test_an_agent_whose_starter_was_killed_says_so() -> None:
    """As of a killed raylet: the process that Ray started ends, and the agent with it."""
    async with machines(3) as lab:
        up = lab.up(star(["h1", "h2"]), *QUICK)
        await up.says("0 of 2 machines joined")
        lab.join("h1", "h1")
        parent = (sys.executable, "-m", "innet.cluster.on_ray.agent_parent")
        token = lab.folder / "h2" / "token"
        token.parent.mkdir(mode=0o700)
        shutil.copy(lab.folder / "token", token)
        join = (*INNET, "node", "join", lab.address, "--token-file", str(token), "--name", "h2")
        # In a session of its own, as on Ray: only the parent is killed.
        apart = ("setsid", "--wait", "env", f"{STARTER_VARIABLE}=Ray")
        agent = lab.start("h2", *apart, *parent, *join)
        await agent.says("joined network")
        await up.says("is up")
        job = lab.innet(
            *("h0", "run", "--on", "net", "--", "python"),
            *(str(WORKERS / "until_file.py"), str(lab.folder / "stop")),
        )
        await job.says("sums")
        assert agent.process is not None
        (started,) = psutil.Process(agent.process.identity.pid).children()
        started.kill()
        await up.says("Ray on its machine has ended or was killed")
        assert await job.ends() != 0
        told = up.text + job.text
        assert "taken down" not in told
        assert "ended before" not in told
        _, found = await diagnosed(lab)
        assert "Ray on its machine has ended" in found["lost_machine"]["problem"]
