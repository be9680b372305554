"""Many hosts at once: no method asks for more than a host's link and its queue hold."""

from __future__ import annotations

import pytest

from innet.compare.machine import Machine
from innet.settings import Settings
from innet.simulation.experiment.outcome import outcome
from innet.simulation.experiment.sweep import make_tasks, sweep
from innet.simulation.workload import load_workload
from innet.topology import load_topology
from innet.topology.credit import receive_credit_bytes

STAR = load_topology("star:32").with_overrides(rate_bps=1e9)


@pytest.mark.parametrize("algorithm", ["inc", "ring", "halving-doubling", "ps"])
def test_a_method_takes_little_more_than_its_bound_among_many_hosts(algorithm: str) -> None:
    workload = load_workload("allreduce:1MiB")
    tasks = make_tasks(STAR, workload, algorithms=[algorithm])
    runs = sweep(tasks, processes=1, told=lambda _: None)
    (result,) = outcome(STAR, workload.name, Settings(), Machine.here(), runs).measurements
    assert result.bound_s is not None
    assert max(result.samples_s) < 1.15 * result.bound_s
    assert result.drops == 0


def test_the_credit_is_the_path_and_the_part_of_the_queue_that_causes_no_mark() -> None:
    star = load_topology("star:4").with_overrides(
        rate_bps=1e9, delay_s=1e-3, queue_bytes=400_000, mark_bytes=100_000
    )
    round_trip_bytes = 4 * 1e-3 * 1e9 / 8
    assert receive_credit_bytes(star, "h0") == round_trip_bytes + 100_000


def test_a_host_on_a_link_without_a_rate_has_no_limit() -> None:
    assert receive_credit_bytes(load_topology("star:4").with_overrides(rate_bps=None), "h0") == 0
