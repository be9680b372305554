"""Every process group that PyTorch asks for: its members, its numbering, its own life."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch


def test_groups_have_pytorchs_members_and_numbers(run_job):
    result = run_job("subgroups.py")
    assert result.failure == ""
    for index in range(4):
        rank = 3 - index
        said = dict(line.split(": ", 1) for line in result.said(f"h{index}").splitlines())
        assert said["world 1"] == said["world 2"] == "1111"
        assert said["order"] == "[0, 1, 2, 3]"
        assert said["alone"] == str(10**rank)
        assert said["rows"] == ("101" if rank in (0, 2) else "1010")
        assert said["columns"] == ("11" if rank in (0, 1) else "1100")
        assert said.get("pair", "101") == said.get("again", "101") == said.get("still", "101")
        assert ("pair" in said) == (rank in (0, 2))
        assert said.get("rest", "1011") == "1011"
        assert ("rest" in said) == (rank != 2)
