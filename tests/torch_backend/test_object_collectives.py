"""The setting says what is done with the objects that other members send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch


def test_a_member_s_objects_run_code_only_where_that_is_allowed(
    run_job: Any, tmp_path: Path
) -> None:
    """The run's setting is weights-only; the worker then takes the other two."""
    result = run_job(
        "objects.py",
        [str(tmp_path / "made")],
        topology="star:2",
        settings=["security.object_collectives=weights-only"],
    )
    assert result.failure == ""
    for host in ("h0", "h1"):
        kept = [line for line in result.said(host).splitlines() if line.startswith("kept to ")]
        assert kept == ["kept to weights-only", "kept to refuse", "kept to allow"]
