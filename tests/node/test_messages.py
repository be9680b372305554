"""Messages between nodes and the controller."""

from __future__ import annotations

import json

import pytest

from innet.node.messages import GroupFailure, GroupReport


@pytest.mark.parametrize("rank", [2, None])
def test_the_failure_of_a_group_is_encoded_with_its_rank(rank: int | None) -> None:
    failure = GroupFailure("rank 2 (h2) was killed", rank)
    report = GroupReport(
        name="g0",
        number=1,
        algorithm="inc",
        ranks=("h0", "h1", "h2"),
        plans={},
        ready=True,
        left=False,
        failure=failure,
    )
    sent = report.model_dump_json()
    assert json.loads(sent)["failure"] == ["rank 2 (h2) was killed", rank]
    received = GroupReport.model_validate_json(sent).failure
    assert received is not None
    assert (received.why, received.rank) == failure
