"""Groups of some ranks, in any order, several at once: each as if it were alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from innet.errors import RankFailed
from innet.plans import make_plan, rank_order
from innet.topology import load_topology
from tests.collectives.cluster import Cluster

ALGORITHMS = ("inc", "ps", "ring", "halving-doubling")
ORDER = ("h6", "h1", "h4", "h3")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(load_topology("leaf-spine:4x2x2")) as made:
        yield made


def on_all(communicators: list[Any], program: Any) -> list[Any]:
    with ThreadPoolExecutor(len(communicators)) as pool:
        return list(pool.map(program, communicators))


def block(rank: int, of: int) -> np.ndarray:
    return np.arange(of * 700, dtype=np.int64).reshape(of, 700) + 1_000_000 * (rank + 1)


def every_collective(comm: Any) -> dict[str, Any]:
    """Values that tell who gave what; whole numbers, so that no order of adding matters."""
    size, rank = comm.size, comm.rank
    mine = block(rank, size)
    received = np.zeros(9, np.int64)
    to, source = (rank + 1) % size, (rank - 1) % size
    if size > 1:
        work = comm.irecv(received, source)
        comm.send(np.full(9, rank), to)
        work.wait()
    return {
        "allreduce": comm.allreduce(mine),
        "reduce_scatter": comm.reduce_scatter(mine),
        "reduce": comm.reduce(mine, root=size - 1),
        "allgather": comm.allgather(mine[0]),
        "gather": comm.gather(mine[0], root=0),
        "broadcast": comm.broadcast(mine.copy(), root=size - 1),
        "scatter": comm.scatter(mine if rank == 0 else None, 0, np.empty_like(mine[:1])),
        "alltoall": comm.alltoall(mine),
        "received": received,
    }


def assert_in_rank_order(results: list[dict[str, Any]]) -> None:
    size = len(results)
    blocks = [block(rank, size) for rank in range(size)]
    total = np.add.reduce(blocks)
    for rank, got in enumerate(results):
        assert np.array_equal(got["allreduce"], total)
        assert np.array_equal(got["reduce_scatter"][0], total[rank])
        assert np.array_equal(got["allgather"], np.stack([b[0] for b in blocks]))
        assert np.array_equal(got["broadcast"], blocks[-1])
        assert np.array_equal(got["scatter"][0], blocks[0][rank])
        assert np.array_equal(got["alltoall"], np.stack([b[rank] for b in blocks]))
        assert (got["received"] == ((rank - 1) % size if size > 1 else 0)).all()
    assert np.array_equal(results[0]["gather"], np.stack([b[0] for b in blocks]))
    assert np.array_equal(results[-1]["reduce"], total)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("nodes", [ORDER, ("h5", "h0", "h2"), ("h7",)], ids=len)
def test_any_hosts_in_any_order_keep_their_ranks(cluster, algorithm, nodes):
    communicators = cluster.group(f"{algorithm}-{len(nodes)}", nodes, algorithm)
    assert [comm.nodes[comm.rank] for comm in communicators] == list(nodes)
    assert_in_rank_order(on_all(communicators, every_collective))


def test_groups_of_different_members_overlap(cluster):
    """All groups work at the same time; two of them share h1 and h4."""
    groups = [
        cluster.group("overlap-a", ORDER, "inc"),
        cluster.group("overlap-b", ("h4", "h0", "h1"), "ring"),
        cluster.group("overlap-c", ("h5", "h2", "h7"), "inc"),
    ]
    with ThreadPoolExecutor(len(groups)) as pool:
        for results in pool.map(lambda group: on_all(group, every_collective), groups):
            assert_in_rank_order(results)


def test_the_order_of_ranks_does_not_change_the_plans_sums():
    """Plans number positions along the tree, whatever order the ranks have."""
    topology = load_topology("leaf-spine:4x2x2")
    scattered = ("h0", "h2", "h4", "h6", "h1", "h3", "h5", "h7")
    plan = make_plan("inc", topology, rank_order(topology, scattered))
    assert plan.rules == make_plan("inc", topology, rank_order(topology)).rules


def test_a_failure_ends_only_the_groups_of_the_failed_rank(cluster):
    hit = cluster.group("hit", ("h0", "h3"), "inc")
    spared = cluster.group("spared", ("h0", "h1"), "inc")
    array = np.ones(1000, np.float32)
    waiting = hit[0].iallreduce(array)
    under_way = spared[0].iallreduce(array)
    cluster.fail(hit[0], "rank 1 (h3) was killed", 1)
    with pytest.raises(RankFailed, match=r"rank 1 \(h3\) was killed"):
        waiting.wait()
    with pytest.raises(RankFailed):
        hit[0].allreduce(array)
    assert (spared[1].allreduce(array) == 2).all()
    assert (under_way.wait() == 2).all()
