"""All nodes of a run find the prefixes that an NDN program registers at its node."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import innet
from innet.cluster.launch import Session
from innet.errors import InterestRefused
from innet.ndn import Client, encode_data
from innet.node.node_config import Mode
from innet.settings import Settings
from innet.topology import load_topology
from tests.said import Said

WORKERS = Path(__file__).parent / "workers"
# Not across switches in one hop: both servers of a prefix would be as far.
TOPOLOGY = "leaf-spine:2x1x2"
OF_THE_NETWORK = 128


@pytest.mark.parametrize(
    "mode", ["local", pytest.param("netns", marks=[pytest.mark.netns, pytest.mark.jobs])]
)
def test_programs_inside_and_outside_a_job_find_the_nearest_server_of_a_name(
    mode: Mode, tmp_path: Path
) -> None:
    async def run() -> Said:
        asked = tmp_path / "asked"
        said = Said()
        async with Session(load_topology(TOPOLOGY), mode=mode, output=said) as session:
            job = asyncio.ensure_future(
                session.run_workers([sys.executable, str(WORKERS / "announces.py"), str(asked)])
            )
            heard = asyncio.ensure_future(said.until(("h1", "nearest: h0"), ("h3", "nearest: h2")))
            await asyncio.wait([job, heard], return_when=asyncio.FIRST_COMPLETED)
            async with Client(f"unix://{session.network.config('leaf0').ndn_socket}") as stranger:
                # Whoever is late is gone round once, so that the second nearest may answer.
                while await innet.call("/where", client=stranger) != "h0":
                    pass
            asked.touch()
            await job
        return said

    said = asyncio.run(run())
    for host, nearest in (("h1", "h0"), ("h3", "h2")):
        assert said.by(host) == [
            f"nearest: {nearest}",
            "python-ndn: from h0",
            "object: True",
            f"origins: {[OF_THE_NETWORK]}",
            "then: h2",
            "at last: nobody",
        ]


def test_without_announcements_a_name_is_known_only_where_it_is_registered() -> None:
    async def run() -> None:
        settings = Settings().with_assignments(["ndn.announce=false"])
        async with Session(load_topology(TOPOLOGY), settings=settings) as session:
            near, far = (
                f"unix://{session.network.config(switch).ndn_socket}"
                for switch in ("leaf0", "leaf1")
            )
            async with Client(near) as server, Client(near) as neighbour, Client(far) as other:
                await server.register("/here", lambda interest: encode_data(interest.name, b"x"))
                assert (await neighbour.express("/here/1")).content == b"x"
                with pytest.raises(InterestRefused):
                    await other.express("/here/1", deadline_s=20, no_route_patience_s=0.5)

    asyncio.run(run())
