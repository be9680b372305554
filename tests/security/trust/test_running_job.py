"""What a running job signs is checked from outside, from its anchor down."""

from __future__ import annotations

from typing import Any


def test_python_ndn_verifies_all_packets_that_a_job_signs(run_job: Any) -> None:
    result = run_job(
        "checked_by_python_ndn.py", topology="star:2", settings=["security.signature=ed25519"]
    )
    assert result.failure == ""
    assert "all are believed" in result.said("h0")
