"""Which packets `innet sim --capture` writes down, and where to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapNgReader

from innet.errors import SimulationError
from innet.lab.experiment.sweep import SUFFIX, file_paths, make_tasks, sweep, with_packet_traces
from innet.lab.workload import load_workload
from innet.topology import load_topology
from innet.topology.link_choice import links_at

TWO_LEAVES = load_topology("leaf-spine:2x2x1").with_overrides(rate_bps=1e9)


def test_each_run_has_a_file_with_the_packets_of_the_chosen_links(tmp_path: Path) -> None:
    tasks = make_tasks(
        TWO_LEAVES,
        load_workload("allreduce:4KiB,repetitions=1,warm-up=0"),
        algorithms=["inc", "tcp-ps:server=h1"],
        seeds=[3],
    )
    sweep(
        with_packet_traces(tasks, tmp_path / "traces", at=["h1"]),
        processes=1,
        progress=lambda _: None,
    )
    ((host, leaf),) = links_at(TWO_LEAVES, ["h1"])
    files = sorted(path.name for path in (tmp_path / "traces").iterdir())
    assert files == ["inc-seed3.pcapng", "tcp-ps-server-h1-seed3.pcapng"]
    for file in files:
        with RawPcapNgReader(str(tmp_path / "traces" / file)) as reader:
            packets: Iterable[tuple[bytes, Any]] = reader
            interfaces = {meta.ifname.decode() for _, meta in packets}
        assert interfaces == {f"{host}->{leaf}", f"{leaf}->{host}"}


def test_one_file_holds_one_run(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.pcapng"
    assert file_paths(file, ["one"], SUFFIX, "packet traces") == [file]
    with pytest.raises(SimulationError, match="there are 2; give a directory"):
        file_paths(file, ["one", "two"], SUFFIX, "packet traces")


def test_a_path_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SimulationError, match="cannot be written to"):
        file_paths(tmp_path / "file", ["one", "two"], SUFFIX, "packet traces")
