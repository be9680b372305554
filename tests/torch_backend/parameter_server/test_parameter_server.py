"""Asynchronous SGD: no push is lost, nobody is waited for without need, staleness is bounded."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from innet.errors import CollectiveError, MismatchError
from innet.topology import load_topology
from innet.torch_backend.parameter_server import Client, Server
from tests.collectives.cluster import Cluster

pytestmark = pytest.mark.torch

WORKERS = (1, 2, 3)


def make_model(fill: float) -> nn.Module:
    model = nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 3))
    for parameter in model.parameters():
        nn.init.constant_(parameter, fill)
    return model


def values_of(model: nn.Module) -> set[float]:
    return set(
        torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()]).tolist()
    )


@pytest.fixture(scope="module")
def cluster():
    with Cluster(load_topology("star:4")) as opened:
        yield opened


@pytest.mark.parametrize("servers", [(0,), (0, 2), (3, 1, 0)])
def test_every_push_is_added_once_wherever_the_shards_are(cluster, servers):
    name = f"added/{len(servers)}"

    def program(comm):
        model = make_model(fill=5.0 if comm.rank in servers else 0.0)
        server = None
        if comm.rank in servers:
            server = Server(model.parameters(), comm, servers=servers, workers=WORKERS, name=name)
        if comm.rank in WORKERS:
            with Client(model.parameters(), comm, servers=servers, name=name) as client:
                for _ in range(10):
                    client.pull()
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter.add_(comm.rank)
                    client.push()
        if server is None:
            return None
        server.wait_for_workers()
        server.read()
        return values_of(model), server.version

    results = cluster.run(program)
    for rank in servers:
        assert results[rank] == ({5.0 + 10 * (1 + 2 + 3)}, 30), results[rank]


def test_pushes_without_a_pull_between_them_are_each_counted_once(cluster):
    def program(comm):
        model = make_model(fill=0.0)
        if comm.rank == 0:
            server = Server(model.parameters(), comm, workers=(1,), name="once")
            server.wait_for_workers()
            server.read()
            return values_of(model)
        if comm.rank == 1:
            with Client(model.parameters(), comm, name="once") as client:
                client.pull()
                for _ in range(4):
                    with torch.no_grad():
                        for parameter in model.parameters():
                            parameter.add_(1)
                    client.push()
                client.push([torch.ones_like(p) for p in model.parameters()], scale=0.5)
        return None

    assert cluster.run(program)[0] == {4.5}


def test_a_fast_worker_waits_for_the_slowest_within_its_staleness(cluster):
    staleness, rounds = 2, 6
    fast_is_ahead = threading.Event()
    order = []

    def fast(comm, client):
        for _ in range(staleness + 1):
            client.pull()
            client.push()
        fast_is_ahead.set()
        client.pull()
        order.append("fast pulled")

    def slow(comm, client):
        fast_is_ahead.wait()
        for _ in range(50):  # time enough for a pull that waits for nobody
            comm.get("ssp/clocks", 0)
        order.append("slow pushes")
        for _ in range(rounds):
            client.pull()
            client.push()

    def program(comm):
        model = make_model(fill=0.0)
        if comm.rank == 0:
            Server(model.parameters(), comm, workers=(1, 2), name="ssp").wait_for_workers()
        elif comm.rank in (1, 2):
            with Client(model.parameters(), comm, name="ssp", staleness=staleness) as client:
                (fast if comm.rank == 1 else slow)(comm, client)

    results = cluster.run(program)
    assert results == [None] * 4
    assert order == ["slow pushes", "fast pulled"]


def test_a_silent_worker_blocks_no_other(cluster):
    def program(comm):
        model = make_model(fill=0.0)
        if comm.rank == 0:
            server = Server(
                model.parameters(), comm, workers=(1, 2), name="silent", worker_timeout_s=0.3
            )
            server.wait_for_workers()
            return server.version
        if comm.rank == 1:
            with Client(
                model.parameters(), comm, name="silent", staleness=1, worker_timeout_s=0.3
            ) as client:
                for _ in range(6):
                    client.pull()
                    client.push()
        if comm.rank == 2:
            client = Client(model.parameters(), comm, name="silent", staleness=1)
            client.pull()
            client.push()
            client.pull()  # the push is done; and now it says nothing more
        return None

    assert cluster.run(program)[0] == 7


def test_pulls_of_one_version_leave_the_server_about_once():
    model = nn.Linear(1000, 300)
    size_bytes = sum(parameter.nbytes for parameter in model.parameters())
    with Cluster(load_topology("star:5"), segment_bytes=8192) as cluster:
        server = Server(model.parameters(), cluster.communicators[0], workers=())

        def pull(comm):
            if comm.rank > 0:
                Client(nn.Linear(1000, 300).parameters(), comm).pull()

        cluster.run(pull)
        assert server.version == 0
        sent = cluster.status("h0")["links"][0]["bytes_out"]
        answered = cluster.status("s0")["node"]
        assert sent < 2 * size_bytes, "each worker's copy came from the server"
        assert answered["cache_hits"] + answered["pit_aggregated"] > 0


def test_impossible_requests_are_refused_at_once(cluster):
    comm = cluster.communicators[1]
    with pytest.raises(CollectiveError, match=r"rank 1 is not among the servers \[0\]"):
        Server(make_model(0.0).parameters(), comm)
    with pytest.raises(CollectiveError, match="one type"):
        Client([torch.zeros(3), torch.zeros(3, dtype=torch.float64)], comm)
    with pytest.raises(CollectiveError, match="staleness=-1"):
        Client(make_model(0.0).parameters(), comm, staleness=-1)
    with pytest.raises(CollectiveError, match="name at least one rank"):
        Client(make_model(0.0).parameters(), comm, servers=())
    Server(make_model(0.0).parameters(), cluster.communicators[0], name="wrong")
    client = Client(make_model(0.0).parameters(), comm, name="wrong")
    with pytest.raises(CollectiveError, match="shapes of the parameters"):
        client.push([torch.zeros(3)])
    other = Client([torch.zeros(7)], comm, name="wrong")
    with pytest.raises(MismatchError, match="wrong/shard/0"):
        other.pull()
