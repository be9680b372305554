"""Joining a group ends when a rank of it fails meanwhile; leaving it releases all of it."""

from __future__ import annotations

from typing import Any

import pytest

from innet.errors import RankFailed
from innet.worker.membership import Membership, Memberships


class Answers:
    """A connection to a controller with one answer to everything, but that rank 1 uses a group."""

    def __init__(self, answer: dict[str, Any] | None = None) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def ask(self, method: str, **parameters: Any) -> Any:
        assert parameters["node"] == "h0"
        self.asked.append(method)
        return self._answer or [[1] for _ in parameters["groups"]]


def test_a_rank_that_fails_once_all_are_ready_is_named() -> None:
    failure = {"why": "rank 1 (h1) was killed by SIGKILL", "rank": 1}
    controller: Any = Answers({"missing": [], "failure": failure})
    node: Any = None
    memberships = Memberships(node, "h0", ("h0", "h1"), controller, credentials=None)
    membership = Membership("g", 0, ("h0", "h1"), 0, plans={})
    with pytest.raises(RankFailed, match=r"rank 1 \(h1\) was killed by SIGKILL") as failed:
        memberships.await_ready(membership, timeout_s=10.0)
    assert failed.value.rank == 1


class Node:
    """A node that is told what it need not keep."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove_group(self, prefix: str) -> None:
        self.removed.append(prefix)


def test_a_group_that_others_have_not_left_is_released_before_the_node_stops() -> None:
    controller: Any = Answers()
    plan: Any = None
    node: Any = Node()
    memberships = Memberships(node, "h0", ("h0", "h1"), controller, credentials=None)
    released: list[str] = []
    left = Membership("g", 0, ("h0", "h1"), 0, plans={"/j/g": plan})
    left.release = lambda: released.append("g")
    memberships.leave(left)
    assert released == []  # the other rank may still need it
    memberships.wait_until_all_left(linger_s=0.01)
    assert (released, node.removed) == (["g"], ["/j/g"])


def test_an_ending_rank_asks_about_all_its_groups_at_once() -> None:
    controller: Any = Answers()
    node: Any = Node()
    memberships = Memberships(node, "h0", ("h0", "h1"), controller, credentials=None)
    plan: Any = None
    for name in ("a", "b", "c"):
        memberships.leave(Membership(name, 0, ("h0", "h1"), 0, plans={f"/j/{name}": plan}))
    before = len(controller.asked)
    memberships.wait_until_all_left(linger_s=0.01)
    assert len(controller.asked) - before == 1
