"""The setting says what is done with the objects that other members send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("mode", ["allow", "weights-only", "refuse"])
def test_a_member_s_objects_run_code_only_where_that_is_allowed(
    run_job: Any, tmp_path: Path, mode: str
) -> None:
    settings = [] if mode == "allow" else [f"security.object_collectives={mode}"]
    result = run_job(
        "objects.py", [mode, str(tmp_path / "made")], topology="star:2", settings=settings
    )
    assert result.failure == ""
    for host in ("h0", "h1"):
        assert f"kept to {mode}" in result.said(host)
