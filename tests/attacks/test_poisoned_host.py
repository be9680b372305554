"""A program on a rank's host that has no key changes and delays none of its contributions."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("signature", ["gmac", "digest"])
def test_no_other_node_can_answer_for_a_rank_before_it_publishes(
    run_job: Any, signature: str
) -> None:
    result = run_job(
        "poisoned_by_a_program.py",
        topology="star:2",
        settings=[f"security.signature={signature}"],
    )
    assert result.failure == ""
    assert "dropped 3" in result.said("h0")
