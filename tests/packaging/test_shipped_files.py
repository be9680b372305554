"""Shipped files are found by the names that pages and help give them, from any directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from innet.errors import TopologyError, WorkloadError
from innet.lab.workload.model import load_workload
from innet.topology import dump_yaml, load_topology


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    ["workloads/kv-replay.yaml", "training:workloads/resnet50.csv", "workloads/training.yaml"],
)
def test_a_shipped_workload_is_found_with_the_files_that_it_names(text: str) -> None:
    assert load_workload(text).jobs


def test_a_shipped_topology_is_found() -> None:
    assert load_topology("topologies/star8.yaml").hosts == load_topology("star8").hosts


def test_a_file_of_the_user_hides_the_shipped_one(elsewhere: Path) -> None:
    (elsewhere / "topologies").mkdir()
    own = load_topology("star:3")
    (elsewhere / "topologies" / "star8.yaml").write_text(dump_yaml(own))
    assert load_topology("topologies/star8.yaml").hosts == own.hosts


def test_a_file_that_is_not_shipped_is_reported_by_its_name() -> None:
    with pytest.raises(WorkloadError, match=r"workloads/none\.yaml"):
        load_workload("workloads/none.yaml")
    with pytest.raises(TopologyError, match=r"topologies/none\.yaml"):
        load_topology("topologies/none.yaml")
