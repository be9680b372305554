"""Ranks that meet through a store find each other again, whoever gave up how far before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore, TCPStore

from innet.errors import DeadlineExceeded, RankFailed
from innet.torch_backend.creation import Meeting, meet

pytestmark = pytest.mark.torch

NODES = ("h4", "h2", "h7")


def come(store: HashStore, ranks: tuple[int, ...], timeout_s: float = 60) -> list[Meeting]:
    with ThreadPoolExecutor(len(ranks)) as pool:
        size = len(NODES)
        return list(pool.map(lambda rank: meet(store, rank, size, NODES[rank], timeout_s), ranks))


def test_all_ranks_learn_the_node_of_every_rank() -> None:
    assert {meeting.nodes for meeting in come(HashStore(), (0, 1, 2))} == {NODES}


def test_ranks_that_timed_out_meet_the_late_rank() -> None:
    store = HashStore()
    for _ in range(2):
        with pytest.raises(DeadlineExceeded, match=r"ranks 2 of 3 did not join"):
            come(store, (0, 1), timeout_s=0.05)
    assert len({(m.nodes, m.generation) for m in come(store, (0, 1, 2))}) == 1


def test_the_ranks_that_wait_check_whether_those_that_miss_may_still_come() -> None:
    def refuse(missing: Sequence[int], nodes: Collection[str]) -> None:
        raise RankFailed(f"{list(missing)} {list(nodes)}")

    with pytest.raises(RankFailed, match=r"\[1, 2\] \['h4'\]"):
        meet(HashStore(), 0, len(NODES), NODES[0], 60, refuse)


def test_a_group_that_is_made_again_has_another_generation() -> None:
    store = HashStore()
    first = come(store, (0, 1, 2))
    for meeting in first:
        meeting.succeeded()
    again = come(store, (0, 1, 2))
    assert {meeting.generation for meeting in again} == {first[0].generation + 1}


def test_the_last_rank_to_be_ready_needs_no_store() -> None:
    """Rank 0, which holds it, may have left by then."""
    held = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    stores = [TCPStore("127.0.0.1", held.port, is_master=False) for _ in NODES]
    with ThreadPoolExecutor(len(NODES)) as pool:
        meetings = list(pool.map(lambda r: meet(stores[r], r, len(NODES), NODES[r], 60), range(3)))
    del held
    for meeting in meetings:
        meeting.succeeded()
    assert len({meeting.generation for meeting in meetings}) == 1


def test_ranks_agree_when_only_some_of_them_formed_the_group() -> None:
    store = HashStore()
    first = come(store, (0, 1, 2))
    first[1].succeeded()
    again = come(store, (0, 1, 2))
    assert {meeting.generation for meeting in again} == {first[0].generation + 1}
