"""`security.signature=none`: sums as ever, and nobody is left in doubt of what is not checked."""

import asyncio

import numpy as np

from innet.cluster.launch import Session
from innet.settings import Settings
from innet.topology import load_topology
from tests.collectives.cluster import Cluster
from tests.said import Said


def test_sums_are_unsigned_and_objects_stay_signed():
    with Cluster(load_topology("star:3"), signature="none") as cluster:
        values = [np.full(5000, rank, np.float32) for rank in range(3)]
        sums = cluster.run(lambda comm: comm.allreduce(values[comm.rank]))
        cluster.communicators[0].publish("model", b"weights")
        copy = cluster.communicators[1].fetch("model", source=0)
        refused = cluster.status("s0")["node"]["unknown_key"]
    assert all((total == 3).all() for total in sums)
    assert copy.tobytes() == b"weights"
    assert refused == 0


def test_launching_a_network_without_signatures_warns():
    said = Said()

    async def launch() -> None:
        settings = Settings().with_assignments(["security.signature=none"])
        async with Session(load_topology("star:1"), settings=settings, output=said):
            pass

    asyncio.run(launch())
    assert any("nothing of them is verified" in line for _, line in said.lines)
