"""Which timeout a process group has: the program's, the setting's, or PyTorch's own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from innet.errors import CollectiveError

pytest.importorskip("torch")

from torch.distributed.constants import default_pg_timeout

from innet.torch_backend.creation import chosen_timeout_s


def test_the_timeout_defaults_to_that_of_pytorch() -> None:
    assert chosen_timeout_s(default_pg_timeout, None) == default_pg_timeout.total_seconds()


def test_the_setting_replaces_the_default() -> None:
    assert chosen_timeout_s(default_pg_timeout, 90.0) == 90.0


def test_the_programs_timeout_takes_precedence_over_the_setting() -> None:
    assert chosen_timeout_s(timedelta(seconds=7), 90.0) == 7.0


def test_a_zero_timeout_is_refused() -> None:
    with pytest.raises(CollectiveError, match="no time"):
        chosen_timeout_s(timedelta(0), None)
