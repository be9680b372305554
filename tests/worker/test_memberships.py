"""Joining a group ends with an error when a rank of it fails meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from innet.errors import RankFailed
from innet.worker.membership import Membership, Memberships


class Answers:
    """A connection to a controller with one answer to everything."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        assert (method, parameters["group"], parameters["node"]) == ("ready_group", "g", "h0")
        return self._answer


def test_a_rank_that_fails_once_all_are_ready_is_named() -> None:
    failure = {"why": "rank 1 (h1) was killed by SIGKILL", "rank": 1}
    controller: Any = Answers({"missing": [], "failure": failure})
    node: Any = None
    memberships = Memberships(node, "h0", ("h0", "h1"), controller, credentials=None)
    membership = Membership("g", 0, ("h0", "h1"), 0, plans={})
    with pytest.raises(RankFailed, match=r"rank 1 \(h1\) was killed by SIGKILL") as failed:
        memberships.await_ready(membership, timeout_s=10.0)
    assert failed.value.rank == 1
