"""When arrays are thin, and that thin ones are told and take the same time."""

from __future__ import annotations

import pytest

from innet.lab.experiment.run import run_task, virtual_scale
from innet.lab.experiment.sweep import RunOptions, make_tasks
from innet.lab.workload import load_workload
from innet.topology import load_topology

STAR = load_topology("star:4").with_overrides(rate_bps=1e9)
LARGE = load_topology("fat-tree:8").with_overrides(mtu_bytes=65000)


@pytest.mark.parametrize(
    ("workload", "least", "most"),
    [
        ("allreduce:1MiB", 1, 1),
        ("allreduce:100MB", 512, 1024),  # 25 GB on 128 hosts
        ("allgather:1MiB", 256, 1024),  # each gets that of all
        ("barrier", 1, 1),
    ],
)
def test_large_arrays_on_many_hosts_have_virtual_payloads(
    workload: str, least: int, most: int
) -> None:
    scale = virtual_scale("auto", LARGE, load_workload(workload))
    assert least <= scale <= most
    assert scale & (scale - 1) == 0


def test_small_packets_limit_how_much_is_virtual() -> None:
    small = load_topology("star:40").with_overrides(mtu_bytes=576)
    assert virtual_scale("virtual", small, load_workload("allreduce:1GiB")) == 16


@pytest.mark.parametrize("workload", ["allreduce:1MiB", "reduce-scatter:1MiB", "alltoall:1MiB"])
def test_virtual_arrays_take_the_time_of_real_ones_and_are_right(workload: str) -> None:
    def median_s(payloads: str, scale: int) -> float:
        (task,) = make_tasks(
            STAR,
            load_workload(f"{workload},repetitions=1"),
            algorithms=["inc"],
            options=RunOptions(payloads=payloads),  # type: ignore[arg-type]
        )
        result = run_task(task)
        (job,) = result.jobs
        assert job.correct
        assert job.size_bytes == 1 << 20
        assert result.virtual_scale == scale
        ((begun, ended),) = job.spans_s
        return ended - begun

    assert median_s("virtual", 16) == pytest.approx(median_s("real", 1), rel=0.1)
