"""Of the processes of a host one joins pools; the others are refused, and it goes on sharing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import RunJob


@pytest.mark.parametrize(("method", "first"), [("fork", "parent"), ("spawn", "child")])
def test_a_second_process_is_refused_and_the_first_keeps_sharing(
    run_job: RunJob, tmp_path: Path, method: str, first: str
) -> None:
    pipes = [tmp_path / "was-put", tmp_path / "was-got"]
    for pipe in pipes:
        os.mkfifo(pipe)
    arguments = [method, first, *map(str, pipes)]
    result = run_job("one_process_per_host.py", arguments, topology="star:2")
    assert not result.failure
    refused, shared = result.said("h0").splitlines()
    assert refused.startswith("HostTaken: ")
    assert "h0" in refused
    assert "Use innet in process" in refused or "was forked from the worker" in refused
    assert shared == "homes: 1"
    assert result.said("h1") == "got it: True"
