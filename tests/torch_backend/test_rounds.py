"""The default group is made again under one launcher: a fast rank meets the slow ones."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from innet.errors import CollectiveError
from innet.torch_backend.loopback_rendezvous import refuse_loopback_rendezvous

pytestmark = pytest.mark.torch


def _run(run_job: Any, rounds: int, mode: str) -> None:
    result = run_job("rounds.py", [str(rounds)], topology="star:4", mode=mode)
    assert result.failure == ""
    for node in ("h0", "h1", "h2", "h3"):
        assert result.said(node).splitlines()[-1] == f"rounds {rounds}, loaded 6"


@pytest.mark.netns
def test_the_default_group_is_made_again_beside_groups_of_gloo(run_job) -> None:
    _run(run_job, 3, "netns")


@pytest.mark.jobs
@pytest.mark.netns
@pytest.mark.parametrize("mode", ["local", "netns"])
def test_the_default_group_is_made_again_24_times(run_job, mode) -> None:
    _run(run_job, 24, mode)


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.0.1.1", "::1"])
def test_a_rendezvous_at_a_loopback_address_is_refused_where_each_host_has_one(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")
    monkeypatch.setattr(rendezvous, "_create_c10d_store", lambda host, port: (host, port))
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("PET_MASTER_ADDR", "10.0.0.1")
    refuse_loopback_rendezvous()
    with pytest.raises(CollectiveError, match=r"loopback address of its own.*\(10\.0\.0\.1\)"):
        rendezvous._create_c10d_store(address, 29500)
    assert rendezvous._create_c10d_store("10.0.0.1", 29500) == ("10.0.0.1", 29500)


@pytest.mark.parametrize(("met_at", "machines"), [("127.0.0.1", "2"), ("10.0.0.1", "1"), ("", "2")])
def test_a_rendezvous_at_a_loopback_address_is_allowed_where_ranks_share_it(
    monkeypatch: pytest.MonkeyPatch, met_at: str, machines: str
) -> None:
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")
    monkeypatch.setattr(rendezvous, "_create_c10d_store", lambda host, port: (host, port))
    monkeypatch.setenv("GROUP_WORLD_SIZE", machines)
    monkeypatch.setenv("PET_MASTER_ADDR", met_at)
    refuse_loopback_rendezvous()
    assert rendezvous._create_c10d_store("localhost", 29500) == ("localhost", 29500)
