"""PyTorch finds a group by the name it gave it."""

from __future__ import annotations

import pytest

from tests.torch_backend.ranks import Ranks

pytestmark = pytest.mark.torch


def test_a_group_keeps_the_name_and_description_that_pytorch_gives_it(ranks: Ranks) -> None:
    group = ranks.groups[0]
    group._set_group_name("17")
    group._set_group_desc("mesh_tp")
    # Read through C++, as functional collectives do.
    assert (group.group_name, group.group_desc) == ("17", "mesh_tp")
